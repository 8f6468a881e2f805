#pragma once
#include <string>

#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// Something that is wrong with a schedule, and where.
struct Finding {
  int stage = 0;
  int action = -1;     ///< in the stage's list, from 0; −1: the stage as a whole
  std::string text;    ///< of the action (text.h)
  std::string reason;  ///< what is wrong and what is allowed

  /// "stage 1, action 7 (F3@1): its activation is not received before it"
  std::string describe() const;
};
using Findings = std::vector<Finding>;

/// A file of some bytes may lack millions of actions: of what is missing so many are found.
inline constexpr size_t most_findings = 1000;

/// Everything that a schedule of this kind must be, or what it is not:
///   - each stage passes each microbatch through each chunk once, forward before backward, and
///     steps once for each batch, after its last backward;
///   - what a pass needs from another stage is received before it, what another needs from it is
///     sent after it, and each channel's messages are received in the order in which they were
///     sent;
///   - two passes that are made together are a forward pass and, next to it, a backward pass of
///     another microbatch, with one version of the weights, so that what both need is there before
///     them and what they make leaves behind them;
///   - with channels of this capacity no actions wait for each other in a circle (dependencies.h);
///     all kinds run with 0;
///   - the version of each pass was made, is still kept, is the forward's in the backward, and is
///     the one that its kind says (kind.h);
///   - no stage holds more microbatches or versions than its kind allows (kind.h).
/// Where the first of these fail, the others would only repeat it, and are not tried.
/// Throws InputError for a shape that its kind does not allow.
Findings check(const Schedule& schedule, int capacity = 1);

/// Throws InputError with the first finding, if there is one; `name` stands for the schedule.
void require_valid(const Schedule& schedule, const std::string& name, int capacity = 1);

}  // namespace frugal::engine
