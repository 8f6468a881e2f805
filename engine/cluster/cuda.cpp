#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster/processes.h"
#include "engine/cluster/threads.h"
#include "engine/comm/decorated.h"
#include "engine/comm/modelled.h"
#include "engine/comm/nccl/nccl.h"
#include "engine/comm/processes/world.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Reason why the GPUs' fused attention cannot do what the run asks of it; empty where it can, or
/// is not asked for.
std::string why_no_attention(const RunConfig& config) {
  if (config.attention != AttentionKind::fused) return "";
  return why_no_fused_attention({.type = config.type,
                                 .head_size = config.model.head_size(),
                                 .cols = config.ring_piece(),
                                 .softcap = config.model.attention_softcap != 0,
                                 .window = config.model.window != 0});
}

/// Other ranks with which a member exchanges messages: all where the group divides heads, its
/// neighbours in a ring.
int exchanging(const Topology& topology, const GroupSpec& group) {
  const std::vector<Topology::Axis> axes = topology.axes(group);
  if (axes.size() != 1) return 0;
  const auto& [name, size, stride] = axes.front();
  return name == "heads" ? size - 1 : name == "ring" ? std::min(2, size - 1) : 0;
}

/// Launches that the ranks of one process may be ahead of their GPUs, together. A process has a
/// queue of about a thousand. A rank that filled it behind a collective would keep the others from
/// launching theirs, for which it waits.
constexpr int most_launches_ahead = 768;

/// Makes a group of these ranks, each with a stream of its own.
using MakeNcclGroup = std::function<std::unique_ptr<Group>(
    const GroupSpec& group, const std::vector<int>& ranks, const std::vector<StreamSpec>& streams,
    MessagesTo messages)>;

/// The groups of ranks on GPUs. With several chunks a stage sends in a ring, or both ways: then
/// each two stages of which one sends to the other are a group, and `meeting` makes one in which
/// all meet.
RankGrid::MakeGroup nccl_groups(const MakeNcclGroup& make, const RankGrid::MakeGroup& meeting,
                                const PartLayout& layout) {
  return [=](const GroupSpec& group, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
    if (layout.chunks == 1 || group.messages == MessagesTo::nobody)
      return make(group, ranks, {group.stream}, group.messages);
    const bool forward = group.messages == MessagesTo::next;
    const StreamSpec arriving =
        forward ? streams::arriving_activations : streams::arriving_gradients;
    const StreamSpec returning =
        forward ? streams::returning_activations : streams::returning_gradients;
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
RankGrid::MakeGroup nccl_groups_of_threads(const std::vector<Device*>& devices,
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
RankGrid::MakeGroup nccl_groups_of_processes(World& world, Device& device,
                                             const PartLayout& layout) {
  const auto make = [&](const GroupSpec& group, const std::vector<int>& ranks,
                        const std::vector<StreamSpec>& streams, MessagesTo messages) {
    const auto own = std::find(ranks.begin(), ranks.end(), world.rank()) - ranks.begin();
    const StreamSpec stream =
        streams[static_cast<size_t>(own) % streams.size()];  // any, if in none
    return make_nccl_process_group(world, ranks, device, {group.name, stream, messages});
  };
  const auto meeting = [=](const GroupSpec& group, const std::vector<int>& ranks) {
    return make(group, ranks, {group.stream}, MessagesTo::nobody);
  };
  return nccl_groups(make, meeting, layout);
}

}  // namespace

std::string why_not_on_gpus(const RunConfig& config, int ranks, int gpus) {
  const bool shared = ranks > gpus && ranks_may_share_gpus();
  if (shared)
    if (std::string why = why_no_shared_gpus(); !why.empty()) return why;
  if (ranks > gpus && !shared)
    return fmt::format(
        "{} ranks (tensor-parallel {} x context-parallel {} x pipeline-parallel {} x data-parallel "
        "{}) "
        "need a GPU each, "
        "and there {} {}; choose smaller sizes, or run one of the tensor-parallel ranks with "
        "lone_rank=MACHINE",
        ranks, config.tensor_parallel, config.context_parallel, config.pipeline_parallel,
        config.data_parallel, gpus == 1 ? "is" : "are", gpus);
  if (ranks > 1)
    if (std::string why = why_no_nccl(); !why.empty()) return why;
  return why_no_attention(config);
}

int64_t memory_of_communicators(const RunConfig& config) {
  const Topology topology = topology_of(config);
  int64_t most = 0;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    int64_t bytes = 0;
    const auto counted = [&](const GroupSpec& group, const std::vector<int>& ranks,
                             const std::vector<StreamSpec>& /*streams*/, MessagesTo messages) {
      const auto size = static_cast<int>(ranks.size());
      const bool member = std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      if (member && size > 1)
        bytes += nccl_memory(messages, blocks_here(messages), exchanging(topology, group));
      return std::make_unique<LocalGroup>(size);
    };
    const auto meeting = [&](const GroupSpec& group, const std::vector<int>& ranks) {
      return counted(group, ranks, {}, MessagesTo::nobody);  // of processes
    };
    const RankGrid grid(topology, nccl_groups(counted, meeting, config.part_layout()), rank);
    most = std::max(most, bytes);
  }
  return most;
}

std::unique_ptr<Cluster> make_cuda_cluster(const RunConfig& config, double deadline, int first,
                                           std::vector<Processors> processors) {
  config.validate();
  const Topology topology = topology_of(config);
  const int there = static_cast<int>(gpus().size()) - first;
  const std::string why_not = why_not_on_gpus(config, topology.ranks(), there);
  if (!why_not.empty()) throw InputError(why_not);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  const int ahead = topology.ranks() > 1 ? most_launches_ahead / topology.ranks() : 0;
  for (int r = 0; r < topology.ranks(); ++r)
    members.push_back(
        devices.emplace_back(make_cuda_device(gpu_of_rank(r, first, there), ahead)).get());
  auto cluster = std::make_unique<ThreadedCluster>(
      config, topology, std::move(devices),
      nccl_groups_of_threads(members, config.part_layout(), deadline));
  cluster->pin(std::move(processors));
  return cluster;
}

std::unique_ptr<Cluster> make_cuda_process_cluster(const RunConfig& config, World& world,
                                                   const MakeProcessGroup& groups, int gpu,
                                                   Transport transport) {
  std::unique_ptr<Device> own = make_cuda_device(gpu);
  Device& device = *own;
  if (transport == Transport::nccl)
    return std::make_unique<ProcessCluster>(
        config, world, std::move(own),
        nccl_groups_of_processes(world, device, config.part_layout()),
        ProcessCluster::Groups::of_the_device);
  const auto through_host = [&](const GroupSpec& group, const std::vector<int>& ranks) {
    std::unique_ptr<Group> on_host = groups(ranks);  // by all, also those that are alone
    if (ranks.size() == 1) return alone_on(device);
    std::vector<Device*> members;
    for (const int rank : ranks) members.push_back(rank == world.rank() ? &device : nullptr);
    on_host = observed_by(world, std::move(on_host), group, ranks);
    return std::unique_ptr<Group>(std::make_unique<ThroughHostGroup>(std::move(on_host), members));
  };
  return std::make_unique<ProcessCluster>(config, world, std::move(own), through_host,
                                          ProcessCluster::Groups::of_the_host);
}

}  // namespace frugal::engine
