#pragma once
#include <cstdint>
#include <vector>

#include "engine/namespace.h"
#include "kernels/virtual/cost_model.h"

namespace frugal::engine {

/// A rank of a run, by what it has a share of.
struct RankPlace {
  int stage = 0;    ///< of the pipeline, in [0, p)
  int replica = 0;  ///< of the model, in [0, w)
  int tensor = 0;   ///< part of each tensor, in [0, t)
  int context = 0;  ///< part of each sequence, in [0, c)

  bool operator==(const RankPlace&) const = default;
};

/// Ranks that communicate with each other, in the order of their places.
enum class Axis : uint8_t {
  tensor,   ///< the parts of one stage of one replica and part of the sequence
  context,  ///< the parts of a sequence
  heads,    ///< of those, some next to each other that divide heads among them
  ring,     ///< one of each such group, among whom keys and values travel
  data,     ///< the replicas of one part of one stage
  shards,   ///< of those that have the same weights, some that divide them (RunConfig::shard)
  copies,   ///< those that have the same part of what is divided so
  stages,   ///< the stages of one pipeline
  ends      ///< the first and the last of them, which share a tied embedding
};

/// Whether the ranks of a group of this axis are of one stage.
bool within_a_stage(Axis axis);

/// How the ranks of a run are numbered and which of them form groups: tensor-parallel ranks next to
/// each other, then parts of the sequence, then replicas, then stages, as Megatron-LM's
/// initialize_model_parallel has them. Those that have the same weights, of all parts of the
/// sequence and all replicas, divide them with those that are next to them.
/// Ranks fill the nodes of a machine one after the other.
struct Layout {
  int tensor = 1;   ///< [t]
  int context = 1;  ///< [c]
  int heads = 1;    ///< [u] of those, in each group that divides heads
  int data = 1;     ///< [w] replicas
  int stages = 1;   ///< [p]
  int shards = 1;   ///< of the ranks that have the same weights; 1: they divide nothing

  int ranks_of_stage() const { return tensor * context * data; }
  int ranks() const { return ranks_of_stage() * stages; }
  int rank(const RankPlace& place) const {
    return ((place.stage * data + place.replica) * context + place.context) * tensor + place.tensor;
  }
  RankPlace place(int rank) const {
    return {.stage = rank / ranks_of_stage(),
            .replica = rank / (tensor * context) % data,
            .tensor = rank % tensor,
            .context = rank / tensor % context};
  }

  /// Ranks of each group of this axis; the ends of a pipeline of one stage are that stage.
  int size(Axis axis) const;
  /// The ranks of the group that `place` belongs to; for ends, the ends of its pipeline, whether it
  /// is one of them or not.
  std::vector<int> members(Axis axis, const RankPlace& place) const;
  /// Which of members() the place itself is; −1 for the ends when it is in the middle.
  int index(Axis axis, const RankPlace& place) const;

  /// The groups of this axis that have members in `stage`, as the cost model sees them. Where they
  /// lie differently on the nodes, the one with the fewest members to a node, because the others
  /// wait for it.
  CostModel::Group group(Axis axis, int stage, int devices_per_node) const;
  /// When a stage sends to another, each rank to the one of the same replica and part: how many do
  /// so from the same node to other nodes, on the node where these are most. 0: none leaves its
  /// node.
  int senders(int from_stage, int to_stage, int devices_per_node) const;
  /// The same of messages of both directions between two stages, while all stages exchange some
  /// with their neighbours: how many of a node do so with other nodes, on the node of the two
  /// stages where these are most.
  int exchanging(int stage, int other, int devices_per_node) const;

 private:
  int exchanging(int stage, int devices_per_node) const;
};

}  // namespace frugal::engine
