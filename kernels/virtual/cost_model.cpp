#include "kernels/virtual/cost_model.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace frugal::kernels {
namespace {

constexpr std::array types{DType::bf16, DType::f32, DType::f64};

size_t index_of(DType type) { return type == DType::bf16 ? 0 : type == DType::f64 ? 2 : 1; }

/// The fraction of the network's bandwidth that its file gives for this.
double either(double own, const Machine& machine) {
  return own > 0 ? own : machine.network_fraction;
}

/// Fraction of the memory's peak that the gradients of norms reach.
double norm_fraction(const Machine& machine, Norms norms) {
  const double own = norms == Norms::pytorch              ? machine.pytorch_norm_fraction
                     : norms == Norms::transformer_engine ? machine.engine_norm_fraction
                                                          : 0;
  return own > 0 ? own : machine.memory_fraction;
}

/// Fraction of their bandwidth that trees reach at this size of a buffer: NCCL v2.7.8-1,
/// src/graph/tuning.cc:245-251, for its protocol Simple and each power of two from 64 bytes on.
double tree_correction(double bytes) {
  constexpr std::array factors{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6,
                               .5, .5, .5, .5, .5, .5, .6, .6, .7, .8, .9};
  const auto size = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(bytes) >> 6U));
  if (size == 0) return factors.front();
  return size > factors.size() ? 1 : factors.at(size - 1);
}

uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

}  // namespace

CostModel::CostModel(const Machine& machine, const DeviceRules& rules)
    : extra_(rules.kernels),
      buffers_messages_(rules.messages.buffered),
      measured_(machine.operations),
      attention_(machine, rules.attention),
      groups_(machine.groups),
      multiprocessors_(static_cast<uint32_t>(machine.multiprocessors)),
      left_by_collective_(
          static_cast<uint32_t>(machine.multiprocessors - machine.collective_multiprocessors)),
      shared_speed_(1 - machine.collective_share),
      kernel_latency_(machine.kernel_latency),
      memory_latency_(machine.memory_latency),
      seconds_per_byte_(1 / (machine.memory_bandwidth * machine.memory_fraction)),
      attention_seconds_per_byte_(1 / (machine.memory_bandwidth * machine.attention_fraction)),
      norm_seconds_per_byte_(1 / (machine.memory_bandwidth * norm_fraction(machine, rules.norms))),
      l2_seconds_per_byte_(static_cast<double>(machine.multiprocessors) / machine.l2_bandwidth),
      host_bandwidth_(machine.host_bandwidth * machine.host_fraction),
      link_bandwidth_(machine.link_bandwidth * machine.link_fraction),
      gather_bandwidth_(machine.link_bandwidth * machine.gather_fraction),
      network_bandwidth_(machine.network_bandwidth * machine.network_fraction),
      lone_bandwidth_(machine.network_bandwidth * either(machine.lone_fraction, machine)),
      message_bandwidth_(machine.network_bandwidth * either(machine.message_fraction, machine)),
      exchange_bandwidth_(machine.exchange_fraction == 0
                              ? message_bandwidth_
                              : machine.network_bandwidth * machine.exchange_fraction),
      collective_latency_(machine.collective_latency),
      link_latency_(machine.link_latency),
      network_latency_(machine.network_latency),
      devices_per_node_(static_cast<int>(machine.devices_per_node)),
      devices_per_port_(static_cast<int>(machine.devices_per_port)) {
  float8_ = rules.kernels.float8 && machine.flops_float8 > 0 && machine.gemm_float8 > 0;
  const auto processors = static_cast<double>(machine.multiprocessors);
  const auto loop = [&](double sustained) { return std::min(machine.gemm_fraction, sustained); };
  const double sustained = rules.kernels.early_products && machine.gemm_2023 > 0
                               ? machine.gemm_2023
                               : machine.gemm_sustained;
  const double own = loop(sustained);
  const double accumulated =
      machine.gemm_accumulated > 0 ? loop(std::min(sustained, machine.gemm_accumulated)) : own;
  for (const Machine::Tile& shape : machine.tiles) {
    if (tile_count_ == tiles_.size()) break;
    Tile& tile = tiles_[tile_count_++];
    tile.m = static_cast<uint32_t>(shape.m);
    tile.n = static_cast<uint32_t>(shape.n);
    const double m = tile.m;
    const double n = tile.n;
    if (float8_)
      tile.float8 = std::max(2 * m * n * processors / (machine.flops_float8 * machine.gemm_float8),
                             (m + n) * l2_seconds_per_byte_);
    for (const DType type : types) {
      const double multiply = 2 * m * n * processors / machine.peak_flops(type);
      const double load = (m + n) * static_cast<double>(size_of(type)) * l2_seconds_per_byte_;
      tile.step[index_of(type)] = std::max(multiply / own, load);
      tile.accumulated[index_of(type)] = std::max(multiply / accumulated, load);
    }
  }
}

double CostModel::duration(const Operation& operation) const {
  const Kernels all = kernels(operation);
  return std::accumulate(all.begin(), all.end(), 0.0,
                         [](double sum, const Kernel& one) { return sum + one.alone; });
}

CostModel::Kernel CostModel::product(const Gemm& gemm, double bytes) const {
  const auto result = static_cast<double>(size_of(gemm.c.type) * (gemm.accumulate ? 2 : 1));
  const auto seconds = [&](uint32_t multiprocessors) {
    return kernel_latency_ +
           std::max(bytes * seconds_per_byte_, waves(gemm, result, multiprocessors));
  };
  const double alone = seconds(multiprocessors_);
  if (left_by_collective_ == multiprocessors_) return slowed(alone);
  return {alone, std::max(alone, seconds(left_by_collective_))};
}

double CostModel::attention_arithmetic(const FusedAttention& attention, int products) const {
  // The scores as a product of their own; the others have as many steps over as many tiles.
  const Gemm scores{
      .a = attention.q,
      .b = attention.k,
      .c = View(nullptr, attention.q.type, {attention.batch(), attention.rows(), attention.cols()}),
      .bias = {},
      .transpose_b = true};
  return products * waves(scores, 0, multiprocessors_) * attention.flops(1) / scores.cost().flops;
}

double CostModel::waves(const Gemm& gemm, double result, uint32_t multiprocessors) const {
  const auto m = static_cast<uint32_t>(gemm.m());
  const auto n = static_cast<uint32_t>(gemm.n());
  const auto batch = static_cast<uint64_t>(gemm.batch());
  const auto k = static_cast<double>(gemm.k());
  const size_t type = index_of(gemm.a.type);
  const bool wide = gemm.accumulate && gemm.c.type == DType::f32;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < tile_count_; ++i) {
    const Tile& tile = tiles_[i];
    const uint64_t count = batch * ceil_div(m, tile.m) * ceil_div(n, tile.n);
    const uint64_t waves = (count + multiprocessors - 1) / multiprocessors;
    const double step = in_float8(gemm) ? tile.float8 : (wide ? tile.accumulated : tile.step)[type];
    const double store = static_cast<double>(tile.m) * tile.n * result * l2_seconds_per_byte_;
    best = std::min(best, static_cast<double>(waves) * (memory_latency_ + k * step + store));
  }
  return best;
}

CostModel::Group CostModel::group(int size) const {
  return {size, std::min(size, devices_per_node_)};
}

double CostModel::bandwidth(const Group& group, double link) const {
  // Each rank of a node drives a network port of its own, in a ring or tree of its own.
  if (group.nodes() == 1) return link;
  return std::min(link,
                  group.per_node == 1 ? lone_bandwidth_ : group.per_node * network_bandwidth_);
}

double CostModel::ring(const Group& group, int passes, double bytes, double link) const {
  if (group.size <= 1) return 0;
  const int between = group.nodes() - 1;
  const int within = group.size - 1 - between;
  return collective_latency_ + passes * (within * link_latency_ + between * network_latency_ +
                                         bytes / bandwidth(group, link));
}

double CostModel::all_reduce(const Group& group, double bytes) const {
  const double around = ring(group, 2, share(group) * bytes,
                             link(group, &Machine::GroupRates::all_reduce, link_bandwidth_));
  if (group.size <= 1 || group.nodes() == 1) return around;
  // As NCCL's double binary trees over the nodes, a chain within each, but with the ring's
  // latencies: the whole buffer passes every link up and down, at 0.92 of a ring's bandwidth.
  // Of two nodes each is the root of one tree and the other's leaf in the other tree, so that half
  // the buffer goes up and half of it down each way between them; NCCL's trees of two nodes have
  // 110 GB/s at most.
  constexpr double most_of_two = 110e9;
  const double once = bandwidth(group, link_bandwidth_);
  const double between =
      group.nodes() == 2 ? std::max(once, std::min(2 * once, most_of_two)) : once;
  const double fraction = 0.92 * tree_correction(bytes);
  const int levels = std::bit_width(static_cast<unsigned>(group.nodes() - 1));
  const double each_way = (group.per_node - 1) * link_latency_ + levels * network_latency_ +
                          bytes / (fraction * std::min(between, link_bandwidth_));
  return std::min(around, collective_latency_ + 2 * each_way);
}

double CostModel::all_to_all(const Group& group, double bytes) const {
  if (group.size <= 1) return 0;
  const double part = bytes / group.size;
  const double within = part * (group.per_node - 1) / link_bandwidth_;
  if (group.nodes() == 1) return collective_latency_ + link_latency_ + within;
  const double between = part * (group.size - group.per_node) / network_bandwidth_;
  return collective_latency_ + network_latency_ + std::max(within, between);
}

double CostModel::shift(const Group& group, double bytes) const {
  if (group.size <= 1) return 0;
  // Where a ring leaves its node, so do those of the node's other ranks.
  return group.nodes() == 1 ? message(true, bytes)
                            : message_between_nodes(devices_per_node_ / group.per_node, bytes);
}

double CostModel::message_between_nodes(int senders, double bytes, Ways ways) const {
  const int sharing = std::min(senders, devices_per_port_);
  const double whole = ways == Ways::one ? message_bandwidth_ : exchange_bandwidth_;
  const double bandwidth = whole * devices_per_port_ / sharing;
  return collective_latency_ + network_latency_ + bytes / std::min(link_bandwidth_, bandwidth);
}

}  // namespace frugal::kernels
