#include "engine/comm/message_ring.h"

#include <stdexcept>

namespace frugal::engine {
namespace {

class RingCommunicator final : public Communicator {
 public:
  struct Edge {
    int peer;
    Communicator& communicator;
  };

  RingCommunicator(Communicator& meeting, Edge next, Edge before, bool next_is_first)
      : meeting_(meeting), next_(next), before_(before), next_is_first_(next_is_first) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  Pending all_reduce(const View& /*data*/) override { refuse(); }
  Pending all_gather(const View& /*shard*/, const View& /*all*/) override { refuse(); }
  Pending reduce_scatter(const View& /*all*/, const View& /*shard*/) override { refuse(); }
  Pending all_to_all(const View& /*from*/, const View& /*to*/) override { refuse(); }
  Pending broadcast(const View& /*data*/, int /*root*/) override { refuse(); }
  Pending shift(const View& /*from*/, const View& /*to*/) override { refuse(); }
  Pending send(const View& data, int to) override {
    if (to != next_.peer) refuse();
    return next_.communicator.send(data, 1);
  }
  Pending receive(const View& data, int from) override {
    if (from != before_.peer) refuse();
    return before_.communicator.receive(data, 0);
  }
  /// All ranks use the edges in one order, so that none waits for one that waits for it.
  void barrier() override {
    (next_is_first_ ? next_ : before_).communicator.barrier();
    (next_is_first_ ? before_ : next_).communicator.barrier();
    meeting_.barrier();
  }
  void abort(const std::string& reason) noexcept override {
    for (Communicator* each : {&meeting_, &next_.communicator, &before_.communicator})
      each->abort(reason);
  }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("a ring of messages: only to the next rank, and from the one before");
  }

  Communicator& meeting_;
  const Edge next_, before_;
  const bool next_is_first_;
};

}  // namespace

MessageRing::MessageRing(std::unique_ptr<Group> meeting, int step, const MakeEdge& make)
    : meeting_(std::move(meeting)) {
  const int size = meeting_->size();
  for (int rank = 0; rank < size; ++rank) edges_.push_back(make(rank, (rank + step) % size));
  for (int rank = 0; rank < size; ++rank) {
    const int before = (rank + size - step) % size;
    Group* const to_next = edges_[static_cast<size_t>(rank)].get();
    Group* const from_before = edges_[static_cast<size_t>(before)].get();
    communicators_.push_back(
        to_next == nullptr || from_before == nullptr
            ? nullptr
            : std::make_unique<RingCommunicator>(
                  meeting_->communicator(rank),
                  RingCommunicator::Edge{(rank + step) % size, to_next->communicator(0)},
                  RingCommunicator::Edge{before, from_before->communicator(1)}, rank < before));
  }
}

MessageRing::~MessageRing() = default;

void MessageRing::reset() {
  meeting_->reset();
  for (const auto& edge : edges_)
    if (edge) edge->reset();
}

}  // namespace frugal::engine
