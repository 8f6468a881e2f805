#include "engine/comm/layout.h"

#include <algorithm>

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
  /// On the fullest.
  int most() const { return most_; }

 private:
  const int devices_;
  int node_ = -1, here_ = 0, most_ = 0;
};

/// How far the ranks of a group are apart.
int step(const Layout& layout, Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return 1;
    case Axis::context:
    case Axis::heads:
      return layout.tensor;
    case Axis::ring:
      return layout.tensor * layout.heads;
    case Axis::data:
      return layout.tensor * layout.context;
    case Axis::shards:
      return layout.tensor;
    case Axis::copies:
      return layout.tensor * layout.shards;
    case Axis::stages:
      return layout.ranks_of_stage();
    case Axis::ends:
      return layout.ranks_of_stage() * (layout.stages - 1);
  }
  return 0;
}

}  // namespace

bool within_a_stage(Axis axis) { return axis != Axis::stages && axis != Axis::ends; }

int Layout::size(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return tensor;
    case Axis::context:
      return context;
    case Axis::heads:
      return heads;
    case Axis::ring:
      return context / heads;
    case Axis::data:
      return data;
    case Axis::shards:
      return shards;
    case Axis::copies:
      return shards == 1 ? 1 : context * data / shards;
    case Axis::stages:
      return stages;
    case Axis::ends:
      return std::min(stages, 2);
  }
  return 0;
}

std::vector<int> Layout::members(Axis axis, const RankPlace& place) const {
  const int own = rank(place), apart = step(*this, axis);
  const int first = within_a_stage(axis) ? own - own / apart % size(axis) * apart
                                         : own - place.stage * ranks_of_stage();
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * apart);
  return ranks;
}

int Layout::index(Axis axis, const RankPlace& place) const {
  const std::vector<int> ranks = members(axis, place);
  const auto found = std::find(ranks.begin(), ranks.end(), rank(place));
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

CostModel::Group Layout::group(Axis axis, int stage, int devices_per_node) const {
  CostModel::Group sparse{.size = size(axis), .per_node = size(axis)};
  const int apart = step(*this, axis);
  const int begin = within_a_stage(axis) ? stage * ranks_of_stage() : 0;
  for (int first = begin; first < begin + ranks_of_stage(); ++first) {
    if (within_a_stage(axis) && first / apart % sparse.size > 0) continue;  // begins no group
    Nodes nodes(devices_per_node);
    for (int i = 0; i < sparse.size; ++i) nodes.add(first + i * apart);
    sparse.per_node = std::min(sparse.per_node, nodes.most());
    if (sparse.per_node == 1) break;
  }
  return sparse;
}

int Layout::senders(int from_stage, int to_stage, int devices_per_node) const {
  const int ranks = ranks_of_stage();
  Nodes leaving(devices_per_node);
  for (int from = from_stage * ranks; from < (from_stage + 1) * ranks; ++from) {
    const int to = from + (to_stage - from_stage) * ranks;
    if (from / devices_per_node != to / devices_per_node) leaving.add(from);
  }
  return leaving.most();
}

int Layout::exchanging(int stage, int other, int devices_per_node) const {
  if (senders(stage, other, devices_per_node) == 0) return 0;
  return std::max(exchanging(stage, devices_per_node), exchanging(other, devices_per_node));
}

int Layout::exchanging(int stage, int devices_per_node) const {
  const int apart = ranks_of_stage();
  const auto node = [&](int rank) { return rank / devices_per_node; };
  const auto leaves = [&](int rank, int neighbour) {
    return neighbour >= 0 && neighbour < ranks() && node(rank) != node(neighbour);
  };
  Nodes leaving(devices_per_node);
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool beside_stage =
        node(rank) >= node(stage * apart) && node(rank) <= node((stage + 1) * apart - 1);
    if (beside_stage && (leaves(rank, rank - apart) || leaves(rank, rank + apart)))
      leaving.add(rank);
  }
  return leaving.most();
}

}  // namespace frugal::engine
