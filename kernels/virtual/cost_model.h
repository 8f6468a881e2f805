#pragma once
#include <array>

#include "kernels/operations.h"
#include "kernels/virtual/machine.h"

namespace frugal {

/// How long operations and collectives take on a described machine, in seconds. Formulas, sources
/// and what is left out: docs/cost-model.md. Nothing here allocates or looks anything up.
class CostModel {
 public:
  explicit CostModel(const Machine& machine);

  /// Device time of an operation: kernel latency + max(arithmetic, memory).
  double duration(const Operation& operation) const;

  /// Ranks of a collective: `size` of them, of which `per_node` share a node.
  struct Group {
    int size = 1;
    int per_node = 1;
    int nodes() const { return (size + per_node - 1) / per_node; }
  };
  /// As many to a node as fit.
  Group group(int size) const;

  /// `bytes` are the whole buffer's: what one rank holds before a reduce-scatter or all-to-all, or
  /// after an all-gather. A group of one takes no time.
  double all_gather(const Group& group, double bytes) const {
    return ring(group, 1, share(group) * bytes);
  }
  double reduce_scatter(const Group& group, double bytes) const {
    return ring(group, 1, share(group) * bytes);
  }
  /// A reduce-scatter and an all-gather in one collective.
  double all_reduce(const Group& group, double bytes) const {
    return ring(group, 2, share(group) * bytes);
  }
  double broadcast(const Group& group, double bytes) const { return ring(group, 1, bytes); }
  double all_to_all(const Group& group, double bytes) const;
  /// A message between two ranks, of the same node or, where every device sends to another node at
  /// once, of two.
  double message(bool same_node, double bytes) const {
    return same_node ? collective_latency_ + link_latency_ + bytes / link_bandwidth_
                     : message_between_nodes(devices_per_node_, bytes);
  }
  /// A message from each rank to the next of a ring, all at once: as long as the slowest.
  double shift(const Group& group, double bytes) const;
  /// A message to another node, when so many devices of the node send one at once.
  double message_between_nodes(int senders, double bytes) const;

 private:
  double gemm_arithmetic(const Gemm& gemm) const;
  /// Of so many products on the tiles of visible scores.
  double attention_arithmetic(const FusedAttention& attention, int products) const;
  /// (n − 1) / n: the part of a buffer that crosses each link of a ring.
  static double share(const Group& group) { return (group.size - 1.0) / group.size; }
  /// `passes` times around the ring, `bytes` over each link each time.
  double ring(const Group& group, int passes, double bytes) const;

  /// Time of one step of a tile's inner loop, k = 1, for operands of a type.
  struct Tile {
    uint32_t m = 0, n = 0;
    std::array<double, 3> step{};
  };
  std::array<Tile, 8> tiles_{};
  size_t tile_count_ = 0;
  uint32_t multiprocessors_;
  double kernel_latency_, memory_latency_, seconds_per_byte_;
  double host_bandwidth_, link_bandwidth_, network_bandwidth_;
  double collective_latency_, link_latency_, network_latency_;
  int devices_per_node_, devices_per_port_;
};

}  // namespace frugal
