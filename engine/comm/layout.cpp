#include "engine/comm/layout.h"

#include <algorithm>
#include <map>

namespace frugal {
namespace {

int most_on_a_node(const std::vector<int>& ranks, int devices_per_node) {
  std::map<int, int> on_node;
  int most = 0;
  for (const int rank : ranks) most = std::max(most, ++on_node[rank / devices_per_node]);
  return most;
}

}  // namespace

int Layout::size(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return tensor;
    case Axis::context:
      return context;
    case Axis::data:
      return data;
    case Axis::stages:
      return stages;
    case Axis::ends:
      return std::min(stages, 2);
  }
  return 0;
}

std::vector<int> Layout::members(Axis axis, const RankPlace& place) const {
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) {
    RankPlace member = place;
    switch (axis) {
      case Axis::tensor:
        member.tensor = i;
        break;
      case Axis::context:
        member.context = i;
        break;
      case Axis::data:
        member.replica = i;
        break;
      case Axis::stages:
        member.stage = i;
        break;
      case Axis::ends:
        member.stage = i * (stages - 1);
        break;
    }
    ranks.push_back(rank(member));
  }
  return ranks;
}

int Layout::index(Axis axis, const RankPlace& place) const {
  const std::vector<int> ranks = members(axis, place);
  const auto found = std::find(ranks.begin(), ranks.end(), rank(place));
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

CostModel::Group Layout::group(Axis axis, int stage, int devices_per_node) const {
  CostModel::Group sparse{.size = size(axis), .per_node = size(axis)};
  const bool within = axis == Axis::data || axis == Axis::tensor || axis == Axis::context;
  for (int first = 0; first < ranks_of_stage(); ++first) {
    const RankPlace of = place(stage * ranks_of_stage() + first);
    if (within && index(axis, of) > 0) continue;  // in the group of a rank before
    const std::vector<int> ranks = members(axis, of);
    sparse.per_node = std::min(sparse.per_node, most_on_a_node(ranks, devices_per_node));
  }
  return sparse;
}

int Layout::senders(int from_stage, int to_stage, int devices_per_node) const {
  const int ranks = ranks_of_stage();
  std::vector<int> leaving;
  for (int from = from_stage * ranks; from < (from_stage + 1) * ranks; ++from) {
    const int to = from + (to_stage - from_stage) * ranks;
    if (from / devices_per_node != to / devices_per_node) leaving.push_back(from);
  }
  return most_on_a_node(leaving, devices_per_node);
}

}  // namespace frugal
