#include "engine/schedule/passes.h"

#include <algorithm>

namespace frugal {
namespace {

/// 1F1B with its backward split in two; `delay`: by how many microbatches the weights' part lags
/// behind the inputs'.
Passes split_backward(int microbatches, int warm_up, int delay) {
  warm_up = std::min(warm_up, microbatches);
  Passes passes;
  for (int k = 0; k < warm_up; ++k) passes.forward(k);
  for (int k = 0; k < microbatches; ++k) {
    if (k + warm_up < microbatches) passes.forward(k + warm_up);
    passes.input_backward(k);
    if (k >= delay) passes.weight_backward(k - delay);
  }
  for (int k = std::max(microbatches - delay, 0); k < microbatches; ++k) passes.weight_backward(k);
  return passes;
}

}  // namespace

Passes inter_layer(int microbatches) {
  Passes passes;
  for (int k = 0; k < microbatches; ++k) passes.forward(k).backward(k);
  return passes;
}

Passes gpipe(int microbatches) {
  Passes passes;
  for (int k = 0; k < microbatches; ++k) passes.forward(k);
  for (int k = 0; k < microbatches; ++k) passes.backward(k);
  return passes;
}

Passes one_forward_one_backward(int stage, int stages, int microbatches) {
  const int warm_up = std::min(stages - 1 - stage, microbatches);
  Passes passes;
  for (int k = 0; k < warm_up; ++k) passes.forward(k);
  for (int k = warm_up; k < microbatches; ++k) passes.forward(k).backward(k - warm_up);
  for (int k = microbatches - warm_up; k < microbatches; ++k) passes.backward(k);
  return passes;
}

Passes interleaved(int stage, int stages, int chunks, int microbatches) {
  // The i-th pass of a direction: groups of `stages` microbatches go through all chunks in turn.
  const auto chunk = [=](int i) { return i / stages % chunks; };
  const auto microbatch = [=](int i) { return i / (stages * chunks) * stages + i % stages; };
  const int total = microbatches * chunks;
  const int warm_up = std::min(2 * (stages - 1 - stage) + (chunks - 1) * stages, total);
  Passes passes;
  const auto backward = [&](int i) { passes.backward(microbatch(i), chunks - 1 - chunk(i)); };
  for (int i = 0; i < total; ++i) {
    passes.forward(microbatch(i), chunk(i));
    if (i >= warm_up) backward(i - warm_up);
  }
  for (int i = total - warm_up; i < total; ++i) backward(i);
  return passes;
}

Passes zero_bubble_h1(int stage, int stages, int microbatches) {
  return split_backward(microbatches, stages - 1 - stage, stage);
}

Passes zero_bubble_h2(int stage, int stages, int microbatches) {
  return split_backward(microbatches, 2 * (stages - 1 - stage), 2 * stage);
}

}  // namespace frugal
