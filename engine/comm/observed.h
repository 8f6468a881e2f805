#pragma once
#include <memory>
#include <vector>

#include "engine/comm/activity.h"
#include "engine/comm/group.h"

namespace frugal::engine {

/// A group whose ranks, whose memory is the host's, note what they communicate, how long they wait
/// for it, and the first operand that is not finite. `name` is a literal: "tensor".
class ObservedGroup final : public Group {
 public:
  /// Member i of the group notes it in activities[i], which outlives the group; null where that
  /// rank is not here.
  ObservedGroup(std::unique_ptr<Group> group, const std::vector<Activity*>& activities,
                std::string_view name);
  ~ObservedGroup() override;

  int size() const override { return group_->size(); }
  Communicator& communicator(int rank) override {
    return *communicators_.at(static_cast<size_t>(rank));
  }
  void reset() override;

 private:
  const std::unique_ptr<Group> group_;
  std::vector<uint64_t> counts_;  ///< of each member's calls
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace frugal::engine
