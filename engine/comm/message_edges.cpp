#include "engine/comm/message_edges.h"

#include <algorithm>
#include <stdexcept>

namespace frugal::engine {
namespace {

/// One end of an edge.
struct EdgeEnd {
  int peer;
  bool sends;
  Communicator& communicator;
};

class EdgesCommunicator final : public Communicator {
 public:
  EdgesCommunicator(Communicator& meeting, std::vector<EdgeEnd> ends)
      : meeting_(meeting), ends_(std::move(ends)) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  Pending all_reduce(const View& /*data*/) override { refuse(); }
  Pending all_gather(const View& /*shard*/, const View& /*all*/) override { refuse(); }
  Pending reduce_scatter(const View& /*all*/, const View& /*shard*/) override { refuse(); }
  Pending all_to_all(const View& /*from*/, const View& /*to*/) override { refuse(); }
  Pending broadcast(const View& /*data*/, int /*root*/) override { refuse(); }
  Pending shift(const View& /*from*/, const View& /*to*/) override { refuse(); }
  Pending send(const View& data, int to) override { return end(to, true).send(data, 1); }
  Pending receive(const View& data, int from) override { return end(from, false).receive(data, 0); }
  /// All ranks use the edges in one order, so that none waits for one that waits for it.
  void barrier() override {
    for (const EdgeEnd& end : ends_) end.communicator.barrier();
    meeting_.barrier();
  }
  void abort(const std::string& reason) noexcept override {
    meeting_.abort(reason);
    for (const EdgeEnd& end : ends_) end.communicator.abort(reason);
  }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("edges of messages: only along an edge, from its first rank");
  }
  Communicator& end(int peer, bool sends) const {
    const auto found = std::ranges::find_if(
        ends_, [&](const EdgeEnd& end) { return end.peer == peer && end.sends == sends; });
    if (found == ends_.end()) refuse();
    return found->communicator;
  }

  Communicator& meeting_;
  const std::vector<EdgeEnd> ends_;
};

}  // namespace

MessageEdges::MessageEdges(std::unique_ptr<Group> meeting, const std::vector<Edge>& edges,
                           const MakeEdge& make)
    : meeting_(std::move(meeting)) {
  for (const Edge& edge : edges) groups_.push_back(make(edge));
  for (int rank = 0; rank < meeting_->size(); ++rank) {
    std::vector<EdgeEnd> ends;
    bool here = true;
    for (size_t i = 0; i < edges.size(); ++i) {
      const auto [from, to] = edges[i];
      if (from != rank && to != rank) continue;
      here = here && groups_[i] != nullptr;
      if (!here) break;
      const bool sends = from == rank;
      ends.push_back({sends ? to : from, sends, groups_[i]->communicator(sends ? 0 : 1)});
    }
    communicators_.push_back(
        here ? std::make_unique<EdgesCommunicator>(meeting_->communicator(rank), std::move(ends))
             : nullptr);
  }
}

MessageEdges::~MessageEdges() = default;

void MessageEdges::reset() {
  meeting_->reset();
  for (const auto& group : groups_)
    if (group) group->reset();
}

}  // namespace frugal::engine
