#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// Before its first backward. Groups of `stages` microbatches go through all chunks in turn.
int interleaved_warm_up(const StageFill& fill) {
  return std::min(2 * (fill.to_end() - 1) + (fill.chunks - 1) * fill.stages,
                  fill.chunks * fill.microbatches);
}

/// `split` with weights' gradients put off, by as many passes as the stage has stages before it.
Passes interleaved_passes(const StageFill& fill, bool split) {
  const int stages = fill.stages, chunks = fill.chunks;
  // Of the i-th pass of a direction.
  const auto chunk = [=](int i) { return i / stages % chunks; };
  const auto microbatch = [=](int i) { return i / (stages * chunks) * stages + i % stages; };
  const int total = fill.microbatches * chunks, warm_up = interleaved_warm_up(fill);
  Passes passes;
  const auto weights = [&](int i) { passes.weight_backward(microbatch(i), chunks - 1 - chunk(i)); };
  const auto backward = [&](int i) {
    if (!split) {
      passes.backward(microbatch(i), chunks - 1 - chunk(i));
      return;
    }
    passes.input_backward(microbatch(i), chunks - 1 - chunk(i));
    if (i >= fill.stage) weights(i - fill.stage);
  };
  for (int i = 0; i < total; ++i) {
    passes.forward(microbatch(i), chunk(i));
    if (i >= warm_up) backward(i - warm_up);
  }
  for (int i = total - warm_up; i < total; ++i) backward(i);
  for (int i = std::max(total - fill.stage, 0); split && i < total; ++i) weights(i);
  return passes;
}

int interleaved_in_flight(const StageFill& fill) {
  return std::min(interleaved_warm_up(fill) + 1, fill.chunks * fill.microbatches);
}

}  // namespace

constinit const ScheduleKind ScheduleKind::interleaved = {
    .name = "interleaved",
    .help = "1F1B with v chunks of the model on each stage; m a multiple of d",
    .source = "Narayanan et al. 2021 (Megatron-LM), section 2.2",
    .has_chunks = true,
    .with_one_chunk = "1f1b",
    .multiple_of_stages = true,
    .passes = [](const StageFill& fill) { return interleaved_passes(fill, false); },
    .in_flight = interleaved_in_flight,
};

constinit const ScheduleKind ScheduleKind::interleaved_zero_bubble = {
    .name = "interleaved-zb",
    .help = "interleaved with the weights' gradients put off to fill the bubble, by s passes",
    .source = "Narayanan et al. 2021, section 2.2, with Qi et al. 2024, section 2.3",
    .splits_backward = true,
    .has_chunks = true,
    .with_one_chunk = "zb-h1",
    .multiple_of_stages = true,
    .passes = [](const StageFill& fill) { return interleaved_passes(fill, true); },
    .in_flight = interleaved_in_flight,
};

}  // namespace frugal::engine
