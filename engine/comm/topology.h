#pragma once
#include <string_view>
#include <vector>

#include "engine/comm/groups.h"
#include "kernels/virtual/cost_model.h"

namespace frugal::engine {

/// Degrees of parallelism of a run.
struct ParallelSizes {
  int tensor = 1;   ///< [t]
  int context = 1;  ///< [c]
  int heads = 1;    ///< [u] of the context-parallel ranks, a divisor of c
  int data = 1;     ///< [w] replicas
  int stages = 1;   ///< [p]
  int shards = 1;   ///< of the c · w ranks with the same weights; 1: nothing is divided
};

/// The ranks of a run as a grid with named axes, on the nodes of a machine that they fill one after
/// the other. Groups follow from it: the ranks whose coordinates differ in the axes of a GroupSpec
/// alone.
class Topology {
 public:
  struct Axis {
    std::string_view name;
    int size = 1;
    int stride = 0;  ///< Distance of neighbours; set by the Topology.
  };

  /// Axes in the order of their ranks' numbers: those of the first are next to each other. The last
  /// one is "stages".
  explicit Topology(std::vector<Axis> axes);
  /// Axes tensor, heads, ring, data, stages, as Megatron-LM's initialize_model_parallel has them,
  /// where heads and ring make up context parallelism. The ranks of heads, ring and data have the
  /// same weights and are divided once more into shards and copies of them.
  explicit Topology(const ParallelSizes& sizes);

  /// Divides the ranks of axes from `first` on once more, in another way; these axes lie beside
  /// those of the grid.
  void divide_again(std::string_view first, std::vector<Axis> axes);

  /// Throws std::logic_error for a name that is none.
  const Axis& axis(std::string_view name) const;
  int coordinate(std::string_view axis_name, int rank) const {
    const Axis& along = axis(axis_name);
    return rank / along.stride % along.size;
  }
  int ranks_of_stage() const { return axis("stages").stride; }
  int stages() const { return axis("stages").size; }
  int ranks() const { return ranks_of_stage() * stages(); }

  /// Axes of a group that have more than one rank.
  std::vector<Axis> axes(const GroupSpec& group) const;
  /// Ranks of each group; the ends of a pipeline of one stage are that stage.
  int size(const GroupSpec& group) const;
  /// Ranks of the group that `rank` belongs to; for ends, those of its pipeline, whether it is one
  /// of them or not.
  std::vector<int> members(const GroupSpec& group, int rank) const;

  /// The groups that have members in `stage`, as the cost model sees them. Where they lie
  /// differently on the nodes, the one with the fewest members to a node, because the others wait
  /// for it.
  CostModel::Group on_nodes(const GroupSpec& group, int stage, int devices_per_node) const;
  /// Ranks of a node that send to other nodes when each rank of a stage sends to its counterpart in
  /// another, on the node where these are most. 0: none leaves its node.
  int senders(int from_stage, int to_stage, int devices_per_node) const;
  /// Ranks of a node that exchange messages with other nodes when all stages do with their
  /// neighbours, on the node of the two stages where these are most; 0 where the two share a node.
  int exchanging(int stage, int other, int devices_per_node) const;

 private:
  int exchanging(int stage, int devices_per_node) const;
  void add(std::vector<Axis> axes, int stride);

  std::vector<Axis> axes_;
};

/// True where all ranks of such a group are of one stage.
bool within_a_stage(const GroupSpec& group);

}  // namespace frugal::engine
