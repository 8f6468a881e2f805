#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/comm/group.h"

namespace frugal::engine {

/// Ranks in a ring that send to the next one and receive from the one before, over a group of two
/// for each such edge: where messages last until they are received, what a rank receives does not
/// wait behind what it sends, and so the ring does not wait for itself.
class MessageRing final : public Group {
 public:
  /// The group of rank `from`, which is 0 there, and rank `to`, which is 1; null where neither is
  /// in this process.
  using MakeEdge = std::function<std::unique_ptr<Group>(int from, int to)>;

  /// The next of rank r is (r + step) mod size: `step` is 1, or size − 1 for the other direction.
  /// In `meeting` all ranks meet in a barrier.
  MessageRing(std::unique_ptr<Group> meeting, int step, const MakeEdge& make);
  ~MessageRing() override;

  int size() const override { return meeting_->size(); }
  /// Of a rank whose edges are both here. Knows send, receive and barrier, which uses every edge.
  /// std::logic_error for anything else.
  Communicator& communicator(int rank) override {
    return *communicators_[static_cast<size_t>(rank)];
  }
  void reset() override;

 private:
  const std::unique_ptr<Group> meeting_;
  std::vector<std::unique_ptr<Group>> edges_;  ///< by the rank that sends
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace frugal::engine
