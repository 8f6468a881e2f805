#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"

namespace frugal::engine {

/// Ranks that send to each other along given edges, with a group of two for each: where messages
/// last until they are received, what a rank receives does not wait behind what it sends, and so
/// ranks in a ring, or two that send to each other, do not wait for themselves.
class MessageEdges final : public Group {
 public:
  /// Sender and receiver.
  using Edge = std::pair<int, int>;
  /// The group of the two ends of an edge, of which the first is 0 there; null where neither is in
  /// this process.
  using MakeEdge = std::function<std::unique_ptr<Group>(const Edge& edge)>;

  /// `edges` in ascending order, each once. In `meeting` all ranks meet in a barrier.
  MessageEdges(std::unique_ptr<Group> meeting, const std::vector<Edge>& edges,
               const MakeEdge& make);
  ~MessageEdges() override;

  int size() const override { return meeting_->size(); }
  /// Messages of a rank whose edges are all here: send, receive and barrier, which uses every edge.
  /// std::logic_error for anything else.
  Communicator& communicator(int rank) override {
    return *communicators_[static_cast<size_t>(rank)];
  }
  void reset() override;

 private:
  const std::unique_ptr<Group> meeting_;
  std::vector<std::unique_ptr<Group>> groups_;  ///< of the edges
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace frugal::engine
