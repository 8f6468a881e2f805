#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// A microbatch and chunk of a stage.
struct Turn {
  int microbatch, chunk;
};

/// Rounds of at least `stages` microbatches each, where there are so many: a round goes through all
/// chunks before the next one begins. Sizes differ by one at most, the larger ones first.
class Rounds {
 public:
  explicit Rounds(const StageFill& fill)
      : chunks_(fill.chunks),
        count_(std::max(fill.microbatches / fill.stages, 1)),
        least_(fill.microbatches / count_),
        larger_(fill.microbatches % count_) {}

  int largest() const { return least_ + (larger_ > 0 ? 1 : 0); }
  /// The i-th turn of the forward passes.
  Turn turn(int i) const {
    const int in_larger = larger_ * (least_ + 1) * chunks_;
    const bool larger = i < in_larger;
    const int size = larger ? least_ + 1 : least_, along = larger ? i : i - in_larger;
    const int first = (larger ? 0 : larger_ * (least_ + 1)) + along / (size * chunks_) * size;
    return {first + along % size, along / size % chunks_};
  }

 private:
  int chunks_, count_, least_, larger_;
};

/// Forward passes before a stage's first backward pass.
int interleaved_warm_up(const StageFill& fill) {
  return std::min(2 * (fill.to_end() - 1) + (fill.chunks - 1) * Rounds(fill).largest(),
                  fill.chunks * fill.microbatches);
}

/// `split` with weights' gradients put off, by as many passes as the stage has stages before it.
Passes interleaved_passes(const StageFill& fill, bool split) {
  const Rounds rounds(fill);
  const int total = fill.microbatches * fill.chunks, warm_up = interleaved_warm_up(fill);
  Passes passes;
  const auto back = [&](int i) {
    const Turn turn = rounds.turn(i);
    return Turn{turn.microbatch, fill.chunks - 1 - turn.chunk};
  };
  const auto weights = [&](int i) { passes.weight_backward(back(i).microbatch, back(i).chunk); };
  const auto backward = [&](int i) {
    const auto [microbatch, chunk] = back(i);
    if (!split) {
      passes.backward(microbatch, chunk);
      return;
    }
    passes.input_backward(microbatch, chunk);
    if (i >= fill.stage) weights(i - fill.stage);
  };
  for (int i = 0; i < total; ++i) {
    const auto [microbatch, chunk] = rounds.turn(i);
    passes.forward(microbatch, chunk);
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
    .help = "1F1B with v chunks of the model on each stage",
    .source = "Narayanan et al. 2021 (Megatron-LM), section 2.2",
    .has_chunks = true,
    .with_one_chunk = "1f1b",
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
    .passes = [](const StageFill& fill) { return interleaved_passes(fill, true); },
    .in_flight = interleaved_in_flight,
};

}  // namespace frugal::engine
