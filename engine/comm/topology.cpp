#include "engine/comm/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace frugal::engine {
namespace {

/// Counts ranks that come in ascending order by the node they are on.
class Nodes {
 public:
  explicit Nodes(int devices_per_node) : devices_(devices_per_node) {}
  void add(int rank) {
    if (rank / devices_ != node_) here_ = 0;
    node_ = rank / devices_;
    most_ = std::max(most_, ++here_);
  }
  /// Number on the fullest.
  int most() const { return most_; }

 private:
  const int devices_;
  int node_ = -1, here_ = 0, most_ = 0;
};

/// Distances of a group's members from the first one, ascending.
std::vector<int> offsets(const Topology& topology, const GroupSpec& group) {
  std::vector<int> all = {0};
  for (const Topology::Axis& axis : topology.axes(group)) {
    const std::vector<int> inner = all;
    for (int i = 1; i < axis.size; ++i)
      for (const int offset : inner) all.push_back(offset + i * axis.stride);
  }
  if (group.ends && all.size() > 2) all = {all.front(), all.back()};
  return all;
}

}  // namespace

bool within_a_stage(const GroupSpec& group) {
  return std::ranges::find(group.axes, "stages") == group.axes.end();
}

Topology::Topology(std::vector<Axis> axes) { add(std::move(axes), 1); }

Topology::Topology(const ParallelSizes& sizes)
    : Topology({{"tensor", sizes.tensor},
                {"heads", sizes.heads},
                {"ring", sizes.context / sizes.heads},
                {"data", sizes.data},
                {"stages", sizes.stages}}) {
  const int same_weights = sizes.context * sizes.data;
  divide_again("heads", {{"shards", sizes.shards},
                         {"copies", sizes.shards == 1 ? 1 : same_weights / sizes.shards}});
}

void Topology::divide_again(std::string_view first, std::vector<Axis> axes) {
  add(std::move(axes), axis(first).stride);
}

void Topology::add(std::vector<Axis> axes, int stride) {
  for (Axis& axis : axes) {
    axis.stride = stride;
    stride *= axis.size;
    axes_.push_back(axis);
  }
}

const Topology::Axis& Topology::axis(std::string_view name) const {
  const auto found = std::ranges::find(axes_, name, &Axis::name);
  if (found == axes_.end())
    throw std::logic_error(fmt::format("the topology has no axis {}", name));
  return *found;
}

std::vector<Topology::Axis> Topology::axes(const GroupSpec& group) const {
  std::vector<Axis> all;
  for (const std::string_view name : group.axes)
    if (!name.empty() && axis(name).size > 1) all.push_back(axis(name));
  return all;
}

int Topology::size(const GroupSpec& group) const {
  return static_cast<int>(offsets(*this, group).size());
}

std::vector<int> Topology::members(const GroupSpec& group, int rank) const {
  for (const Axis& axis : axes(group)) rank -= coordinate(axis.name, rank) * axis.stride;
  std::vector<int> ranks = offsets(*this, group);
  for (int& member : ranks) member += rank;
  return ranks;
}

CostModel::Group Topology::on_nodes(const GroupSpec& group, int stage, int devices_per_node) const {
  const std::vector<int> apart = offsets(*this, group);
  const std::vector<Axis> along = axes(group);
  const auto size = static_cast<int>(apart.size());
  CostModel::Group sparse{
      .size = size, .per_node = size, .apart = along.empty() ? 1 : along.front().stride};
  const int begin = within_a_stage(group) ? stage * ranks_of_stage() : 0;
  for (int first = begin; first < begin + ranks_of_stage() && sparse.per_node > 1; ++first) {
    const auto is_first = [&](const Axis& axis) { return first / axis.stride % axis.size == 0; };
    if (!std::ranges::all_of(along, is_first)) continue;  // begins no group
    Nodes nodes(devices_per_node);
    for (const int offset : apart) nodes.add(first + offset);
    sparse.per_node = std::min(sparse.per_node, nodes.most());
  }
  return sparse;
}

int Topology::senders(int from_stage, int to_stage, int devices_per_node) const {
  const int ranks = ranks_of_stage();
  Nodes leaving(devices_per_node);
  for (int from = from_stage * ranks; from < (from_stage + 1) * ranks; ++from) {
    const int to = from + (to_stage - from_stage) * ranks;
    if (from / devices_per_node != to / devices_per_node) leaving.add(from);
  }
  return leaving.most();
}

int Topology::exchanging(int stage, int other, int devices_per_node) const {
  if (senders(stage, other, devices_per_node) == 0) return 0;
  return std::max(exchanging(stage, devices_per_node), exchanging(other, devices_per_node));
}

int Topology::exchanging(int stage, int devices_per_node) const {
  const int apart = ranks_of_stage(), all = ranks();
  const auto node = [&](int rank) { return rank / devices_per_node; };
  const auto leaves = [&](int rank, int neighbour) {
    return neighbour >= 0 && neighbour < all && node(rank) != node(neighbour);
  };
  Nodes leaving(devices_per_node);
  for (int rank = 0; rank < all; ++rank) {
    const bool beside_stage =
        node(rank) >= node(stage * apart) && node(rank) <= node((stage + 1) * apart - 1);
    if (beside_stage && (leaves(rank, rank - apart) || leaves(rank, rank + apart)))
      leaving.add(rank);
  }
  return leaving.most();
}

}  // namespace frugal::engine
