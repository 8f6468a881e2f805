#pragma once
#include "engine/comm/message_edges.h"
#include "engine/comm/modelled.h"
#include "engine/comm/nccl/nccl.h"
#include "engine/comm/processes/world.h"
#include "engine/rank_grid.h"

namespace frugal::engine {

/// Streams of stages that send in a ring, where messages that are received do not wait for those
/// that are sent, and of stages that form a V, where those of a chunk that goes back do not wait
/// for those of the other one.
inline constexpr StreamSpec arriving_activations{"arriving activations", StreamUse::messages},
    arriving_gradients{"arriving gradients", StreamUse::messages},
    returning_activations{"returning activations", StreamUse::messages},
    returning_gradients{"returning gradients", StreamUse::messages};

/// Makes a group of these ranks, each with a stream of its own.
using MakeNcclGroup = std::function<std::unique_ptr<Group>(
    const GroupSpec& group, const std::vector<int>& ranks, const std::vector<StreamSpec>& streams,
    MessagesTo messages)>;

/// The groups of ranks on GPUs. With several chunks a stage sends in a ring, or both ways: then
/// each two stages of which one sends to the other are a group, and `meeting` makes one in which
/// all meet.
inline RankGrid::MakeGroup nccl_groups(const MakeNcclGroup& make,
                                       const RankGrid::MakeGroup& meeting,
                                       const PartLayout& layout) {
  return [=](const GroupSpec& group, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
    if (layout.chunks == 1 || group.messages == MessagesTo::nobody)
      return make(group, ranks, std::vector(ranks.size(), group.stream), group.messages);
    const bool forward = group.messages == MessagesTo::next;
    const StreamSpec arriving = forward ? arriving_activations : arriving_gradients;
    const StreamSpec returning = forward ? returning_activations : returning_gradients;
    // The way of the first chunk's is that of the ring, too.
    const auto goes_back = [=](const MessageEdges::Edge& edge) {
      return layout.placement != Placement::around && (edge.first < edge.second) != forward;
    };
    const auto member = [&](int place) { return ranks.at(static_cast<size_t>(place)); };
    return std::make_unique<MessageEdges>(
        meeting(group, ranks), layout.ways(forward), [&](const MessageEdges::Edge& edge) {
          return make(group, {member(edge.first), member(edge.second)},
                      {goes_back(edge) ? returning : group.stream, arriving}, MessagesTo::next);
        });
  };
}

/// Groups of ranks that are threads: device r is rank r's.
inline RankGrid::MakeGroup nccl_groups_of_threads(const std::vector<Device*>& devices,
                                                  const PartLayout& layout, double deadline) {
  const auto make = [=](const GroupSpec& /*group*/, const std::vector<int>& ranks,
                        const std::vector<StreamSpec>& streams, MessagesTo messages) {
    std::vector<Device*> members;
    for (const int rank : ranks) members.push_back(devices.at(static_cast<size_t>(rank)));
    if (members.size() == 1) return alone_on(*members.front());
    return make_nccl_group(members, deadline, streams, messages);
  };
  const auto meeting = [=](const GroupSpec& /*group*/, const std::vector<int>& ranks) {
    return std::make_unique<LocalGroup>(static_cast<int>(ranks.size()), deadline);
  };
  return nccl_groups(make, meeting, layout);
}

/// Groups of ranks that are processes: the device is this one's.
inline RankGrid::MakeGroup nccl_groups_of_processes(World& world, Device& device,
                                                    const PartLayout& layout) {
  const auto make = [&](const GroupSpec& group, const std::vector<int>& ranks,
                        const std::vector<StreamSpec>& streams, MessagesTo messages) {
    const auto own = std::find(ranks.begin(), ranks.end(), world.rank()) - ranks.begin();
    const StreamSpec stream =
        streams[static_cast<size_t>(own) % streams.size()];  // any, if in none
    return make_nccl_process_group(world, ranks, device, {group.name, stream, messages});
  };
  const auto meeting = [=](const GroupSpec& group, const std::vector<int>& ranks) {
    return make(group, ranks, std::vector(ranks.size(), group.stream), MessagesTo::nobody);
  };
  return nccl_groups(make, meeting, layout);
}

}  // namespace frugal::engine
