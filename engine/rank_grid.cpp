#include "engine/rank_grid.h"

#include <algorithm>
#include <numeric>

namespace frugal::engine {
namespace {

std::vector<int> all_ranks(const Layout& layout) {
  std::vector<int> ranks(static_cast<size_t>(layout.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Whether these are all that share a sequence, who have a group already.
bool same_as_context(const Layout& layout, GroupUse use) {
  return (use == GroupUse::heads || use == GroupUse::ring) && layout.context > 1 &&
         layout.size(axis_of(use)) == layout.context;
}

}  // namespace

std::string_view name_of(GroupUse use) {
  switch (use) {
    case GroupUse::tensor:
      return "tensor";
    case GroupUse::context:
      return "context";
    case GroupUse::heads:
      return "heads";
    case GroupUse::ring:
      return "ring";
    case GroupUse::stages:
      return "stages";
    case GroupUse::activations:
      return "activations";
    case GroupUse::gradients:
      return "gradients";
    case GroupUse::data:
      return "data";
    case GroupUse::shards:
      return "shards";
    case GroupUse::copies:
      return "copies";
    case GroupUse::ends:
      break;
  }
  return "ends";
}

Axis axis_of(GroupUse use) {
  switch (use) {
    case GroupUse::tensor:
      return Axis::tensor;
    case GroupUse::context:
      return Axis::context;
    case GroupUse::heads:
      return Axis::heads;
    case GroupUse::ring:
      return Axis::ring;
    case GroupUse::stages:
    case GroupUse::activations:
    case GroupUse::gradients:
      return Axis::stages;
    case GroupUse::data:
      return Axis::data;
    case GroupUse::shards:
      return Axis::shards;
    case GroupUse::copies:
      return Axis::copies;
    case GroupUse::ends:
      break;
  }
  return Axis::ends;
}

Stream stream_of(GroupUse use) {
  switch (use) {
    case GroupUse::activations:
      return Stream::activations;
    case GroupUse::gradients:
      return Stream::gradients;
    case GroupUse::ends:
      return Stream::ends;
    case GroupUse::context:
    case GroupUse::heads:
    case GroupUse::ring:
      return Stream::sequences;
    case GroupUse::data:
    case GroupUse::shards:
    case GroupUse::copies:
      return Stream::replicas;
    case GroupUse::stages:
      return Stream::stages;
    case GroupUse::tensor:
      break;
  }
  return Stream::communication;
}

RankGrid::RankGrid(const Layout& layout, const MakeGroup& make)
    : RankGrid(layout, all_ranks(layout), make) {}

RankGrid::RankGrid(const Layout& layout, const std::vector<int>& here, const MakeGroup& make)
    : seats_(static_cast<size_t>(layout.ranks()) * group_uses) {
  for (const int rank : here)
    for (int i = 0; i < group_uses; ++i) {
      const auto use = static_cast<GroupUse>(i);
      if (same_as_context(layout, use)) seat(rank, use) = seat(rank, GroupUse::context);
      if (seat(rank, use).group != nullptr) continue;
      const RankPlace place = layout.place(rank);
      std::vector<int> members = layout.members(axis_of(use), place);
      // A stage between the ends is its own end.
      if (layout.index(axis_of(use), place) < 0) members = {rank};
      groups_.push_back(make(use, members));
      for (size_t m = 0; m < members.size(); ++m)
        seat(members[m], use) = {groups_.back().get(), static_cast<int>(m)};
    }
}

RankGroups RankGrid::groups(int rank) {
  const auto at = [&](GroupUse use) -> Communicator& { return seat(rank, use).communicator(); };
  return {at(GroupUse::tensor),    at(GroupUse::context), at(GroupUse::heads),
          at(GroupUse::ring),      at(GroupUse::stages),  at(GroupUse::activations),
          at(GroupUse::gradients), at(GroupUse::data),    at(GroupUse::shards),
          at(GroupUse::copies),    at(GroupUse::ends)};
}

void RankGrid::abort(int rank, const std::string& reason) noexcept {
  for (int i = 0; i < group_uses; ++i)
    seat(rank, static_cast<GroupUse>(i)).communicator().abort(reason);
}

void RankGrid::reset() {
  for (const auto& group : groups_) group->reset();
}

}  // namespace frugal::engine
