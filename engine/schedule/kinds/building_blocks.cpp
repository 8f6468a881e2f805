#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// Times of a stage's passes of the first microbatch, in slots of one pass; those of each one
/// behind it come `interval` slots later. Which of its passes a stage makes in a slot is the slot's
/// number modulo the interval, so the six of them differ in that.
struct StageSlots {
  int forward[2], input[2], weight[2];  ///< of both chunks
};
constexpr int interval = 6;

/// Shape of a V: slots from one stage to the next, of chunk 0's and 1's forward passes and of
/// chunk 1's and 0's backward passes, and slots to wait at the three turns between those ways.
struct BuildingBlock {
  std::array<int, 4> steps;
  std::array<int, 3> waits;
};

StageSlots slots_of(const BuildingBlock& block, int stages, int stage) {
  const int down = stage, up = stages - 1 - stage;
  const auto way = [&](int i, int along) { return block.steps[i] * along; };
  StageSlots slots{};
  int turn = 0;
  const auto next_turn = [&](int i) {
    turn += way(i, stages - 1) + 1 + (i < 3 ? block.waits[i] : 0);
  };
  slots.forward[0] = turn + way(0, down);
  next_turn(0);
  slots.forward[1] = turn + way(1, up);
  next_turn(1);
  slots.input[1] = turn + way(2, down);
  next_turn(2);
  slots.input[0] = turn + way(3, up);
  return slots;
}

/// The weights' passes take the two slots that are left, as soon as they can. False where two of
/// the other passes meet in one slot.
bool add_weights(StageSlots& slots) {
  std::array<bool, interval> taken{};
  for (const int slot : {slots.forward[0], slots.forward[1], slots.input[1], slots.input[0]})
    if (std::exchange(taken[slot % interval], true)) return false;
  for (const int chunk : {1, 0}) {
    int slot = slots.input[chunk] + 1;
    while (taken[slot % interval]) ++slot;
    taken[slot % interval] = true;
    slots.weight[chunk] = slot;
  }
  return true;
}

/// The shortest waits with which no stage has two passes in one slot; of several the most even.
BuildingBlock without_meetings(std::array<int, 4> steps, int stages) {
  BuildingBlock best{steps, {}};
  std::pair shortest{3 * interval, interval};  // of all waits, and of the longest
  for (int i = 0; i < interval * interval * interval; ++i) {
    const BuildingBlock block{steps,
                              {i / interval / interval, i / interval % interval, i % interval}};
    const std::pair waits{std::accumulate(block.waits.begin(), block.waits.end(), 0),
                          *std::ranges::max_element(block.waits)};
    bool meets = false;
    for (int stage = 0; stage < std::min(stages, interval); ++stage) {  // those behind are alike
      StageSlots slots = slots_of(block, stages, stage);
      meets = meets || !add_weights(slots);
    }
    if (meets || waits >= shortest) continue;
    best = block;
    shortest = waits;
  }
  return best;
}

/// The passes of a stage in the order of their slots.
Passes repeated(std::array<int, 4> steps, const StageFill& fill) {
  StageSlots slots = slots_of(without_meetings(steps, fill.stages), fill.stages, fill.stage);
  add_weights(slots);
  int last = 0;
  for (const int chunk : {0, 1}) last = std::max(last, slots.weight[chunk]);
  last += interval * (fill.microbatches - 1);
  Passes passes;
  for (int slot = 0; slot <= last; ++slot) {
    // The microbatch whose pass, which the first makes at `begin`, is in this slot.
    const auto here = [&](int begin) {
      const int since = slot - begin;
      const bool made = since >= 0 && since % interval == 0 && since / interval < fill.microbatches;
      return made ? std::optional(since / interval) : std::nullopt;
    };
    for (const int chunk : {0, 1}) {
      if (const auto k = here(slots.forward[chunk])) passes.forward(*k, chunk);
      if (const auto k = here(slots.input[chunk])) passes.input_backward(*k, chunk);
      if (const auto k = here(slots.weight[chunk])) passes.weight_backward(*k, chunk);
    }
  }
  return passes;
}

}  // namespace

// Both repeat the paper's building blocks without its last step, which moves passes of the warm-up
// into idle slots.
constinit const ScheduleKind ScheduleKind::v_half = {
    .name = "v-half",
    .help = "two chunks in a V, in half the memory of 1f1b",
    .source = "Qi et al. 2024b (controllable memory), section 3.3 and table 1",
    .splits_backward = true,
    .has_chunks = true,
    .chunks = 2,
    .placement = Placement::to_and_fro,
    .passes =
        [](const StageFill& fill) {
          return repeated({2, 1, 2, 1}, fill);
        },
    .in_flight =
        [](const StageFill& fill) {
          return 2 * std::min((fill.stages + 2) / 2, fill.microbatches);
        },
};

constinit const ScheduleKind ScheduleKind::v_min = {
    .name = "v-min",
    .help = "two chunks in a V, in a third of the memory of 1f1b",
    .source = "Qi et al. 2024b (controllable memory), section 3.3 and table 1",
    .splits_backward = true,
    .has_chunks = true,
    .chunks = 2,
    .placement = Placement::to_and_fro,
    .passes =
        [](const StageFill& fill) {
          return repeated({1, 1, 1, 1}, fill);
        },
    .in_flight =
        [](const StageFill& fill) {
          return 2 * std::min((fill.stages + 4) / 3, fill.microbatches);
        },
};

}  // namespace frugal::engine
