#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/topology.h"
#include "engine/rank.h"

namespace frugal::engine {

/// The groups of a cluster's ranks that are in this process.
class RankGrid {
 public:
  /// A group of these ranks, in this order.
  using MakeGroup =
      std::function<std::unique_ptr<Group>(const GroupSpec& group, const std::vector<int>& ranks)>;

  /// Makes the groups of all ranks, or those of `only`. Groups of the same axes and stream are one.
  RankGrid(const Topology& topology, const MakeGroup& make, std::optional<int> only = {},
           std::span<const GroupSpec> groups = all_groups);

  /// Communicator of a rank that is here.
  Communicator& communicator(int rank, const GroupSpec& group);
  Communicators communicators(int rank) {
    return Communicators::from(
        [&](const GroupSpec& group) -> Communicator& { return communicator(rank, group); });
  }
  /// Makes all groups of this rank throw PeerLost(reason) on their other members.
  void abort(int rank, const std::string& reason) noexcept;
  /// Group::reset() of all.
  void reset();

 private:
  struct Seat {
    Group* group = nullptr;
    int index = 0;
    Communicator& communicator() const { return group->communicator(index); }
  };
  /// Seats of a rank, in the order of the groups.
  std::span<Seat> seats(int rank) {
    return {&seats_[static_cast<size_t>(rank) * specs_.size()], specs_.size()};
  }

  const std::vector<GroupSpec> specs_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Seat> seats_;
};

/// Topology of all ranks of a run.
inline Topology topology_of(const RunConfig& config) {
  return Topology(ParallelSizes{.tensor = config.tensor_parallel,
                                .context = config.context_parallel,
                                .heads = config.head_ranks(),
                                .data = config.data_parallel,
                                .stages = config.pipeline_parallel,
                                .shards = config.shard_ranks()});
}

}  // namespace frugal::engine
