#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/layout.h"
#include "engine/rank.h"

namespace frugal::engine {

/// What a group of ranks is for: a member of RankGroups.
enum class GroupUse : uint8_t {
  tensor,
  context,
  heads,
  ring,
  stages,
  activations,
  gradients,
  data,
  shards,
  copies,
  ends
};
inline constexpr int group_uses = 11;
std::string_view name_of(GroupUse use);
Axis axis_of(GroupUse use);
/// Groups that need not wait for each other have a stream each: those of an axis one for their
/// collectives, so that sums of tensor parallelism do not queue behind weights that replicas
/// gather. Neighbouring stages send to each other at the same time, and the ends of a pipeline may
/// wait long for each other.
Stream stream_of(GroupUse use);

/// The groups of a cluster's ranks that are in this process.
class RankGrid {
 public:
  /// A group of these ranks, in this order.
  using MakeGroup =
      std::function<std::unique_ptr<Group>(GroupUse use, const std::vector<int>& ranks)>;

  /// `here` are the ranks of this process. A group is made where one of its members is.
  RankGrid(const Layout& layout, const std::vector<int>& here, const MakeGroup& make);
  /// All are here.
  RankGrid(const Layout& layout, const MakeGroup& make);

  /// Groups of a rank that is here.
  RankGroups groups(int rank);
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
  Seat& seat(int rank, GroupUse use) {
    return seats_[static_cast<size_t>(rank) * group_uses + static_cast<size_t>(use)];
  }

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Seat> seats_;
};

/// Layout of all ranks of a run.
inline Layout layout_of(const RunConfig& config) {
  return {.tensor = config.tensor_parallel,
          .context = config.context_parallel,
          .heads = config.head_ranks(),
          .data = config.data_parallel,
          .stages = config.pipeline_parallel,
          .shards = config.shard_ranks()};
}

}  // namespace frugal::engine
