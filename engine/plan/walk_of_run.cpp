#include "engine/plan/walk_of_run.h"

#include <algorithm>
#include <cstdlib>

#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

WalkMessage message_between(const MessageCost& message, const CostModel& times, const Links& links,
                            int from, int to) {
  const double alone = message.on_its_way(times, links.between(from, to));
  WalkMessage walked{.alone = alone,
                     .beside = alone,
                     .buffered = times.buffered(message.sent, alone),
                     .gather = message.gather};
  // Stages exchange messages with a neighbour.
  if (std::abs(from - to) == 1)
    walked.beside = message.on_its_way(
        times, links.exchanging.at(static_cast<size_t>(std::min(from, to))), Ways::both);
  return walked;
}

}  // namespace

bool makes_together(const RunConfig& run) {
  return run.schedule.makes_together && run.overlaps_passes();
}

std::pair<ModelPart, ModelPart> chunks_of(const RunConfig& run, int stage) {
  return {ModelPart::of(run, stage, 0), ModelPart::of(run, stage, 1)};
}

Walk walk_of(const RunConfig& run, int microbatches, const PartCosts& costs, const Links& links,
             const CostModel& times, double launch) {
  const MessageCost message(run, times);
  const DeviceRules& rules = run.program.device;
  Walk walk;
  walk.layout = run.part_layout();
  walk.microbatches = microbatches;
  walk.message_bytes = message.bytes;
  walk.messages = rules.messages.kind;
  walk.launch = launch;
  walk.synchronised = rules.host_waits_around_passes;
  const int parts = walk.layout.parts();
  for (int part = 0; part < parts; ++part) {
    const Seat seat = walk.layout.seat_of(part);
    walk.parts.push_back(costs.of(ModelPart::of(run, seat.stage, seat.chunk)));
    if (run.offload)
      walk.turning.push_back(costs.turning(ModelPart::of(run, seat.stage, seat.chunk)));
    const auto sent = [&](int to) {
      const int stage = to < 0 || to >= parts ? seat.stage : walk.layout.seat_of(to).stage;
      return stage == seat.stage ? WalkMessage()
                                 : message_between(message, times, links, seat.stage, stage);
    };
    walk.ahead.push_back(sent(part + 1));
    walk.back.push_back(sent(part - 1));
  }
  for (int stage = 0; stage < walk.layout.stages; ++stage) {
    Actions& actions = walk.actions.emplace_back(
        run.schedule.passes({stage, walk.layout.stages, walk.layout.chunks, microbatches})
            .actions());
    for (Action& pass : actions) pass.beside_next = pass.beside_next && run.overlaps_passes();
    if (!makes_together(run)) continue;
    const auto [ahead, back] = chunks_of(run, stage);
    walk.together.push_back({costs.together(ahead, back, 0), costs.together(ahead, back, 1)});
  }
  return walk;
}

}  // namespace frugal::engine
