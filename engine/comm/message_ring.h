#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/comm/local.h"

namespace frugal::engine {

/// Ranks in a ring that send to the next one and receive from the one before, over a group of two
/// for each such edge: where messages last until they are received, what a rank receives does not
/// wait behind what it sends, and so the ring does not wait for itself.
class MessageRing final : public Group {
 public:
  /// The group of rank `from`, which is 0 there, and rank `to`, which is 1.
  using MakeEdge = std::function<std::unique_ptr<Group>(int from, int to)>;

  /// The next of rank r is (r + step) mod size: `step` is 1, or size − 1 for the other direction.
  /// No wait in a barrier lasts longer than `deadline` seconds.
  MessageRing(int size, int step, double deadline, const MakeEdge& make);
  ~MessageRing() override;

  int size() const override { return static_cast<int>(communicators_.size()); }
  /// Knows send, receive and barrier, which uses every edge. std::logic_error for anything else.
  Communicator& communicator(int rank) override {
    return *communicators_[static_cast<size_t>(rank)];
  }
  void reset() override;

 private:
  LocalGroup meeting_;
  std::vector<std::unique_ptr<Group>> edges_;  ///< by the rank that sends
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace frugal::engine
