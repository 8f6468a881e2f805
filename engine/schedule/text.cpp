#include "engine/schedule/text.h"

#include <fmt/format.h>

namespace frugal::engine {

std::string to_text(const Action& action, int chunks) {
  const std::string place = chunks == 1 ? fmt::format("{}", action.microbatch)
                                        : fmt::format("{}.{}", action.microbatch, action.chunk);
  switch (action.kind) {
    case ActionKind::forward:
      return fmt::format("F{}@{}", place, action.version);
    case ActionKind::backward:
      return fmt::format("B{}@{}", place, action.version);
    case ActionKind::input_backward:
      return fmt::format("I{}@{}", place, action.version);
    case ActionKind::weight_backward:
      return fmt::format("W{}@{}", place, action.version);
    case ActionKind::receive_activation:
      return fmt::format("<F{}", place);
    case ActionKind::send_activation:
      return fmt::format("F{}>", place);
    case ActionKind::receive_gradient:
      return fmt::format("<B{}", place);
    case ActionKind::send_gradient:
      return fmt::format("B{}>", place);
    case ActionKind::step:
      return fmt::format("step@{}", action.version);
  }
  return "";
}

std::string to_text(const Schedule& schedule) {
  std::string out = fmt::format(
      "frugal schedule 1\nkind {}\nstages {}\nchunks {}\nmicrobatches {}\nfirst-batch {}\n"
      "batches {}\n",
      name_of(schedule.kind), schedule.stages, schedule.chunks, schedule.microbatches,
      schedule.first_batch, schedule.batches);
  for (size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    out += fmt::format("\nstage {}\n", stage);
    // A line has a pass, or two that are made together, with what it receives and sends.
    bool goes_on = false, begun = false;
    for (const Action& action : schedule.actions[stage]) {
      if (begun) out += goes_on || is_send(action.kind) ? ' ' : '\n';
      out += to_text(action, schedule.chunks);
      if (action.beside_next) out += " &";
      goes_on = action.beside_next || (is_message(action.kind) && !is_send(action.kind));
      begun = true;
    }
    if (begun) out += '\n';
  }
  return out;
}

}  // namespace frugal::engine
