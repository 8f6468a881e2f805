#include "engine/cluster/rank_grid.h"

#include <algorithm>

namespace frugal::engine {
namespace {

/// Index of the first group that has the same ranks as group `i` for the same purpose: all axes but
/// those of one rank are the same, and so is the stream. `i` itself where there is none.
size_t first_same(const Topology& topology, const std::vector<GroupSpec>& specs, size_t i) {
  const auto names = [&](const GroupSpec& spec) {
    std::vector<std::string_view> all;
    for (const Topology::Axis& axis : topology.axes(spec)) all.push_back(axis.name);
    return all;
  };
  const auto own = names(specs[i]);
  if (own.empty()) return i;
  size_t first = 0;
  while (specs[first].stream != specs[i].stream || specs[first].ends != specs[i].ends ||
         names(specs[first]) != own)
    ++first;
  return first;
}

}  // namespace

RankGrid::RankGrid(const Topology& topology, const MakeGroup& make, std::optional<int> only,
                   std::span<const GroupSpec> groups)
    : specs_(groups.begin(), groups.end()),
      seats_(static_cast<size_t>(topology.ranks()) * specs_.size()) {
  std::vector<size_t> same;
  for (size_t i = 0; i < specs_.size(); ++i) same.push_back(first_same(topology, specs_, i));
  for (int rank = 0; rank < topology.ranks(); ++rank)
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (only.value_or(rank) != rank) continue;
      Seat& own = seats(rank)[i];
      if (same[i] < i) own = seats(rank)[same[i]];
      if (own.group != nullptr) continue;
      std::vector<int> members = topology.members(specs_[i], rank);
      // A stage between the ends is its own end.
      if (std::ranges::find(members, rank) == members.end()) members = {rank};
      groups_.push_back(make(specs_[i], members));
      for (size_t m = 0; m < members.size(); ++m)
        seats(members[m])[i] = {groups_.back().get(), static_cast<int>(m)};
    }
}

Communicator& RankGrid::communicator(int rank, const GroupSpec& group) {
  const auto found = std::ranges::find(specs_, group.name, &GroupSpec::name);
  return seats(rank)[static_cast<size_t>(found - specs_.begin())].communicator();
}

void RankGrid::abort(int rank, const std::string& reason) noexcept {
  for (const Seat& seat : seats(rank)) seat.communicator().abort(reason);
}

void RankGrid::reset() {
  for (const auto& group : groups_) group->reset();
}

}  // namespace frugal::engine
