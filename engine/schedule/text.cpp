#include "engine/schedule/text.h"

#include <fmt/format.h>

namespace frugal {

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

}  // namespace frugal
