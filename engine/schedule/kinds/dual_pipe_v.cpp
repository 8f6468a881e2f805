#include <deque>

#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// Makes a stage's passes in turn; a backward pass is whole, or its weights' part is put off.
class DualPipe {
 public:
  void forward(int chunk) { passes.forward(forwards_[chunk]++, chunk); }
  void backward(int chunk) { passes.backward(backwards_[chunk]++, chunk); }
  /// Makes passes of two microbatches, one of which hides the other's communication.
  void together(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    passes.beside();
    backward(backward_chunk);
  }
  void input_backward(int chunk) {
    const int k = backwards_[chunk]++;
    passes.input_backward(k, chunk);
    put_off_.emplace_back(k, chunk);
  }
  /// The one that was put off first.
  void weight_backward() {
    passes.weight_backward(put_off_.front().first, put_off_.front().second);
    put_off_.pop_front();
  }

  Passes passes;

 private:
  int forwards_[2] = {}, backwards_[2] = {};
  std::deque<std::pair<int, int>> put_off_;  // microbatch and chunk
};

/// The last backward passes of both chunks, of which the second half put off their weights' part:
/// on stages of odd number half a turn earlier.
void last_turns(const StageFill& fill, DualPipe& pipe) {
  const int turns = fill.stage + 1, half = turns / 2;
  const bool odd = fill.stage % 2 == 1;
  for (int i = 0; i < turns; ++i)
    for (const int chunk : {1, 0}) {
      const bool put_off = i > half || (i == half && (odd || chunk == 0));
      put_off ? pipe.input_backward(chunk) : pipe.backward(chunk);
    }
}

Passes dual_pipe_v_passes(const StageFill& fill) {
  const int below = fill.to_end() - 1;
  DualPipe pipe;
  for (int i = 0; i < 2 * below; ++i) pipe.forward(0);
  for (int i = 0; i <= fill.stage; ++i) {
    pipe.forward(0);
    pipe.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    pipe.input_backward(1);
    pipe.weight_backward();
    pipe.forward(1);
  }
  const int full = fill.microbatches - 2 * fill.stages + fill.stage + 1;
  for (int i = 0; i < full; ++i) {
    // The last stage's first two would keep the others waiting.
    if (i == 0 && below == 0) {
      pipe.forward(0);
      pipe.backward(1);
    } else {
      pipe.together(0, 1);
    }
    pipe.together(1, 0);
  }
  for (int i = 0; i < below; ++i) {
    pipe.backward(1);
    pipe.together(1, 0);
  }
  last_turns(fill, pipe);
  for (int i = 0; i < below; ++i) {
    pipe.weight_backward();
    pipe.input_backward(0);
  }
  for (int i = 0; i <= fill.stage; ++i) pipe.weight_backward();
  return pipe.passes;
}

}  // namespace

constinit const ScheduleKind ScheduleKind::dual_pipe_v = {
    .name = "dualpipe-v",
    .help = "two chunks in a V, a forward of one beside a backward of the other; m ≥ 2d",
    .source = "DeepSeek-AI 2024 (DualPipe), cut in half by Qi 2025",
    .splits_backward = true,
    .makes_together = true,
    .has_chunks = true,
    .chunks = 2,
    .placement = Placement::to_and_fro,
    .least_per_stage = 2,
    .why_least = "with fewer, its turns of both chunks do not begin",
    .passes = dual_pipe_v_passes,
    .in_flight = [](const StageFill& fill) { return 2 * fill.stages + 1; },
};

}  // namespace frugal::engine
