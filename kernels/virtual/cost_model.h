#pragma once
#include <algorithm>
#include <array>

#include "kernels/operations.h"
#include "kernels/virtual/device_rules.h"
#include "kernels/virtual/machine.h"

namespace frugal::kernels {

/// Directions that messages have in a port at a time: one has its bandwidth alone.
enum class Ways : uint8_t { one, both };

/// Durations of operations and collectives on a described machine, in seconds. docs/cost-model.md
/// has formulas, sources and what is left out. Nothing here allocates or looks anything up, but for
/// a machine whose operations were measured.
class CostModel {
 public:
  explicit CostModel(const Machine& machine, const DeviceRules& rules = {});

  /// Seconds of a kernel on all multiprocessors, and on those that a collective leaves to it.
  struct Kernel {
    double alone = 0, beside = 0;
  };
  /// Each of the kernels that the program runs for an operation.
  class Kernels {
   public:
    Kernels(std::initializer_list<Kernel> kernels) {
      for (const Kernel& each : kernels) add(each);
    }
    void add(const Kernel& kernel) { kernels_.at(count_++) = kernel; }
    const Kernel* begin() const { return kernels_.data(); }
    const Kernel* end() const { return kernels_.data() + count_; }

   private:
    std::array<Kernel, 4> kernels_{};
    size_t count_ = 0;
  };
  Kernels kernels(const Operation& operation) const {
    if (!measured_.empty())
      if (const auto found = measured_.find(form_of(operation)); found != measured_.end())
        return {slowed(found->second.seconds(work_of(operation)))};
    return std::visit([this](const auto& op) { return kernels_of(op); }, operation);
  }
  /// Seconds of all kernels of an operation.
  double duration(const Operation& operation) const;

  /// Ranks of a collective: `size` of them, of which `per_node` share a node.
  struct Group {
    int size = 1;
    int per_node = 1;
    int apart = 1;  ///< devices from one to the next, within a node
    int nodes() const { return (size + per_node - 1) / per_node; }
  };
  /// Group of `size` ranks, as many to a node as fit.
  Group group(int size) const;

  /// `bytes` are the whole buffer's: what one rank holds before a reduce-scatter or all-to-all, or
  /// after an all-gather. A group of one takes no time.
  double all_gather(const Group& group, double bytes) const {
    return ring(group, 1, share(group) * bytes,
                link(group, &Machine::GroupRates::all_gather, gather_bandwidth_));
  }
  double reduce_scatter(const Group& group, double bytes) const {
    return ring(group, 1, share(group) * bytes,
                link(group, &Machine::GroupRates::reduce_scatter, gather_bandwidth_));
  }
  /// A reduce-scatter and an all-gather in one collective around a ring, or up and down a tree of
  /// nodes, whichever is faster: many ranks have little to sum sooner by a tree.
  double all_reduce(const Group& group, double bytes) const;
  double broadcast(const Group& group, double bytes) const {
    return ring(group, 1, bytes, link_bandwidth_);
  }
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
  double message_between_nodes(int senders, double bytes, Ways ways = Ways::one) const;
  /// Seconds from the moment at which the sender of a message is through with it to the message's
  /// end (MessageRules::buffered).
  double buffered(double bytes, double seconds) const {
    // Of NCCL, which has one channel for a message.
    constexpr double buffer = 1 << 22;
    return buffers_messages_ ? seconds * std::min(1.0, buffer / bytes) : 0;
  }

 private:
  /// An operation that is one kernel, bound by memory.
  template <class T>
  Kernels kernels_of(const T& operation) const {
    return {memory_bound(operation.cost().bytes)};
  }
  Kernels kernels_of(const Gemm& gemm) const;
  /// Adds what a program does to a product's operands in kernels of their own.
  void add_casts(const Gemm& gemm, Kernels& kernels) const;
  Kernels kernels_of(const GemmGelu& both) const;
  Kernels kernels_of(const GemmGeluBackward& both) const;
  Kernels kernels_of(const GemmBiasGradient& both) const;
  Kernels kernels_of(const Softmax& softmax) const;
  Kernels kernels_of(const SoftmaxBackward& backward) const;
  Kernels kernels_of(const FusedAttention& attention) const;
  Kernels kernels_of(const FusedAttentionBackward& backward) const;
  Kernels kernels_of(const MergeAttention& merge) const;
  Kernels kernels_of(const LayerNormBackward& backward) const;
  Kernels kernels_of(const RmsNormBackward& backward) const;
  Kernels kernels_of(const BiasDropoutAdd& add) const;
  Kernels kernels_of(const BiasDropoutAddBackward& backward) const;
  Kernels kernels_of(const Adam& adam) const;
  Kernels kernels_of(const Transfer& transfer) const;

  /// A kernel that is slower beside a collective by the share of the device that this takes.
  Kernel slowed(double alone) const { return {alone, alone / shared_speed_}; }
  Kernel memory_bound(double bytes) const {
    return slowed(kernel_latency_ + bytes * seconds_per_byte_);
  }
  /// Softmax and its dropout.
  Kernel attention_bound(double bytes) const {
    return slowed(kernel_latency_ + bytes * attention_seconds_per_byte_);
  }
  /// Kernels of a norm's backward pass that moves `all` bytes, those of `add` included, a gradient
  /// that came over the residual path.
  Kernels norm_backward(double all, const View& add) const;
  /// A product that moves `bytes`.
  Kernel product(const Gemm& gemm, double bytes) const;
  /// A product without what the program does to its result in kernels of their own.
  Gemm alone(const Gemm& gemm) const;
  /// Whole waves of tiles on so many multiprocessors, whose results take `result` bytes per element
  /// to the L2 cache.
  double waves(const Gemm& gemm, double result, uint32_t multiprocessors) const;
  /// True for a linear map's product, forward or of a gradient, that a program computes in 8 bits.
  bool in_float8(const Gemm& gemm) const {
    return float8_ && gemm.a.type == DType::bf16 && gemm.batch() == 1;
  }
  /// Seconds of so many products on the tiles of visible scores.
  double attention_arithmetic(const FusedAttention& attention, int products) const;
  /// (n − 1) / n: the part of a buffer that crosses each link of a ring.
  static double share(const Group& group) { return (group.size - 1.0) / group.size; }
  /// `passes` times around the ring, `bytes` over each link each time, which within a node has so
  /// much bandwidth.
  double ring(const Group& group, int passes, double bytes, double link) const;
  /// Bandwidth of a link in a group of one node, which may have rates of its own.
  double link(const Group& group, double Machine::GroupRates::*rate, double otherwise) const {
    const auto is_it = [&](const Machine::GroupRates& one) {
      return one.ranks == group.size && one.apart == group.apart;
    };
    const auto found = std::ranges::find_if(groups_, is_it);
    return group.nodes() > 1 || found == groups_.end() ? otherwise : *found.*rate;
  }
  /// Bandwidth of a group's ring or tree, all ports of a node together, whose links have `link`.
  double bandwidth(const Group& group, double link) const;

  /// Time of one step of a tile's inner loop, k = 1, for operands of a type.
  struct Tile {
    uint32_t m = 0, n = 0;
    std::array<double, 3> step{};
    std::array<double, 3> accumulated{};  ///< the same of products added in float32
    double float8 = 0;                    ///< the same of 8-bit operands
  };
  std::array<Tile, 8> tiles_{};
  size_t tile_count_ = 0;
  const ExtraKernels extra_;
  const bool buffers_messages_;
  const MeasuredOperations measured_;
  const AttentionClock attention_;
  const std::vector<Machine::GroupRates> groups_;
  uint32_t multiprocessors_;
  uint32_t left_by_collective_;  ///< of them
  double shared_speed_;          ///< of compute beside a collective, in (0, 1)
  double kernel_latency_, memory_latency_, seconds_per_byte_, attention_seconds_per_byte_;
  double norm_seconds_per_byte_;
  bool float8_;
  double l2_seconds_per_byte_;  ///< of one multiprocessor, beside all others
  double host_bandwidth_, link_bandwidth_, gather_bandwidth_;
  double network_bandwidth_, lone_bandwidth_, message_bandwidth_, exchange_bandwidth_;
  double collective_latency_, link_latency_, network_latency_;
  int devices_per_node_, devices_per_port_;
};

}  // namespace frugal::kernels
