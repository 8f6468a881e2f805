#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// Before its first backward. Groups of `stages` microbatches go through all chunks in turn.
int interleaved_warm_up(const StageFill& fill) {
  return std::min(2 * (fill.to_end() - 1) + (fill.chunks - 1) * fill.stages,
                  fill.chunks * fill.microbatches);
}

Passes interleaved_passes(const StageFill& fill) {
  const int stages = fill.stages, chunks = fill.chunks;
  // Of the i-th pass of a direction.
  const auto chunk = [=](int i) { return i / stages % chunks; };
  const auto microbatch = [=](int i) { return i / (stages * chunks) * stages + i % stages; };
  const int total = fill.microbatches * chunks, warm_up = interleaved_warm_up(fill);
  Passes passes;
  const auto backward = [&](int i) { passes.backward(microbatch(i), chunks - 1 - chunk(i)); };
  for (int i = 0; i < total; ++i) {
    passes.forward(microbatch(i), chunk(i));
    if (i >= warm_up) backward(i - warm_up);
  }
  for (int i = total - warm_up; i < total; ++i) backward(i);
  return passes;
}

}  // namespace

constinit const ScheduleKind ScheduleKind::interleaved = {
    .name = "interleaved",
    .help = "1F1B with v chunks of the model on each stage; m a multiple of d",
    .source = "Narayanan et al. 2021 (Megatron-LM), section 2.2",
    .has_chunks = true,
    .with_one_chunk = "1f1b",
    .multiple_of_stages = true,
    .passes = interleaved_passes,
    .in_flight =
        [](const StageFill& fill) {
          return std::min(interleaved_warm_up(fill) + 1, fill.chunks * fill.microbatches);
        },
};

}  // namespace frugal::engine
