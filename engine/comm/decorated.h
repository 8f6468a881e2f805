#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/comm/activity.h"
#include "engine/comm/communicator.h"
#include "kernels/device.h"

/// Groups that are made of other groups.
namespace frugal::engine {

/// A group whose ranks, whose memory is the host's, note what they communicate, how long they wait
/// for it, and the first operand that is not finite. `name` is a literal: "tensor".
class ObservedGroup final : public Group {
 public:
  /// Member i of the group notes it in activities[i], which outlives the group; null where that
  /// rank is not here.
  ObservedGroup(std::unique_ptr<Group> group, const std::vector<Activity*>& activities,
                std::string_view name);

  void reset() override;

 private:
  const std::unique_ptr<Group> group_;
  std::vector<uint64_t> counts_;  ///< of each member's calls
};

/// A group of ranks whose memory is a device's, of which `inner` carries what is in the host's: a
/// call waits for what the compute stream has computed so far and copies its operand to the host,
/// and waiting for it copies the result back. Sums are the inner group's, bit for bit.
///
/// Copies lie in the host's memory that the device keeps; no ledger has them.
class ThroughHostGroup final : public Group {
 public:
  /// Member r computes on devices[r], which outlives the group; null where that is another
  /// process's. Several may share one.
  ThroughHostGroup(std::unique_ptr<Group> inner, const std::vector<Device*>& devices);
  void reset() override { inner_->reset(); }

 private:
  const std::unique_ptr<Group> inner_;
};

/// Ranks that send to each other along given edges, with a group of two for each: where messages
/// last until they are received, what a rank receives does not wait behind what it sends, and so
/// ranks in a ring, or two that send to each other, do not wait for themselves. Ranks whose edges
/// are all here have communicators, for send, receive and barrier, which uses every edge;
/// std::logic_error for anything else.
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
  void reset() override;

 private:
  const std::unique_ptr<Group> meeting_;
  std::vector<std::unique_ptr<Group>> groups_;  ///< of the edges
};

}  // namespace frugal::engine
