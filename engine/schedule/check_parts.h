#pragma once
#include "engine/schedule/check.h"

// The checker's parts, one file each. Each relies on those before it having found nothing.
namespace frugal::engine {

/// Where a stage's actions stand in its list. Built of actions whose microbatches and chunks are in
/// range.
class ActionIndex {
 public:
  ActionIndex(const Schedule& schedule, int stage);

  /// −1 where there is none. Of several the first.
  int find(ActionKind kind, int microbatch, int chunk) const {
    return positions_[slot(kind, microbatch, chunk)];
  }

 private:
  int slot(ActionKind kind, int microbatch, int chunk) const {
    return ((static_cast<int>(kind) * microbatches_) + microbatch - first_) * chunks_ + chunk;
  }

  int first_, microbatches_, chunks_;
  std::vector<int> positions_;
};

Finding finding(const Schedule& schedule, int stage, int action, std::string reason);
/// About a stage as a whole; −1: about the schedule.
Finding finding(int stage, std::string reason);
/// About an action that is not there.
Finding missing(const Schedule& schedule, int stage, const Action& action, std::string reason);

/// Each action means something, and each that must be there is, once.
void check_contents(const Schedule& schedule, Findings& findings);
/// Within each stage.
void check_order(const Schedule& schedule, Findings& findings);
/// Each channel's messages are received in the order in which they were sent.
void check_channels(const Schedule& schedule, Findings& findings);
void check_deadlock(const Schedule& schedule, int capacity, Findings& findings);
void check_versions(const Schedule& schedule, Findings& findings);
void check_peaks(const Schedule& schedule, Findings& findings);

}  // namespace frugal::engine
