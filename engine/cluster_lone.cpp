#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster_threads.h"
#include "engine/comm/modelled.h"
#include "engine/comm/staged.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {
namespace {

/// Which member of its group is the rank that stands for all. Of a causal ring the last one
/// computes most, and the others wait for it; where all compute as much, it has most queries at a
/// time, and so holds most.
int place_in(GroupUse use, const RunConfig& config) {
  if (use == GroupUse::ring) return config.ring_ranks() - 1;
  return use == GroupUse::context ? config.context_parallel - config.head_ranks() : 0;
}

/// The ranks of a group that one of them stands for; it is alone where other stages are in it.
CostModel::Group members_of(const Machine& machine, const Layout& all, GroupUse use, int stage) {
  if (!within_a_stage(axis_of(use))) return {};
  const auto nodes = std::max<int64_t>(machine.devices_per_node, 1);
  return all.group(axis_of(use), stage, static_cast<int>(nodes));
}

/// The group of a rank that stands for all members, or is alone.
std::unique_ptr<Group> represented(Device& device, const Machine& machine, const Layout& all,
                                   GroupUse use, int stage, const RunConfig& config) {
  return std::make_unique<ModelledGroup>(device, CostModel(machine),
                                         members_of(machine, all, use, stage),
                                         place_in(use, config), stream_of(use));
}

std::unique_ptr<Cluster> make_lone_cluster(const RunConfig& config, std::unique_ptr<Device> device,
                                           const Machine& machine) {
  config.validate();
  require_able(machine, config.ranks(), config.type);
  if (config.pipeline_parallel > 1)
    throw InputError(fmt::format(
        "pipeline-parallel size is {}: a lone rank has no other stages to exchange messages with; "
        "use 1, or --on virtual:MACHINE",
        config.pipeline_parallel));
  const Layout all = layout_of(config);
  Device& alone = *device;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::move(device));
  return std::make_unique<ThreadedCluster>(
      config, Layout{}, std::move(devices), [&](GroupUse use, const std::vector<int>& /*ranks*/) {
        return represented(alone, machine, all, use, 0, config);
      });
}

}  // namespace

std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine,
                                              double deadline) {
  config.validate();
  require_able(machine, config.ranks(), config.type);
  const Layout all = layout_of(config);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<VirtualDevice*> stages;
  const auto on_node =
      static_cast<int>(std::min<int64_t>(machine.devices_per_node, config.ranks()));
  for (int stage = 0; stage < all.stages; ++stage) {
    auto device = std::make_unique<VirtualDevice>(machine, config.program.software, on_node);
    stages.push_back(device.get());
    devices.push_back(std::move(device));
  }
  const std::shared_ptr<Exchanges> exchanges = exchanges_of(stages);
  auto cluster = std::make_unique<ThreadedCluster>(
      config, Layout{.stages = all.stages}, std::move(devices),
      [&](GroupUse use, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
        const auto stage = static_cast<size_t>(ranks.front());
        if (ranks.size() == 1) {
          const CostModel::Group group = members_of(machine, all, use, ranks.front());
          if (group.size > group.per_node) stages[stage]->cross_nodes(stream_of(use));
          return represented(*stages[stage], machine, all, use, ranks.front(), config);
        }
        const Axis axis = use == GroupUse::ends ? Axis::ends : Axis::stages;
        const bool same = config.tensor_parallel > 1 && !config.sequence_parallel;
        return std::make_unique<StagedGroup>(stages, all, axis, stream_of(use), exchanges,
                                             same ? Replicated::over_tensor_group : Replicated::no,
                                             deadline);
      });
  cluster->choose_tasks();
  return cluster;
}

std::unique_ptr<Cluster> make_lone_cpu_cluster(const RunConfig& config, int threads,
                                               const Machine& machine) {
  return make_lone_cluster(config, std::make_unique<CpuDevice>(threads), machine);
}

std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine) {
  return make_lone_cluster(config, make_cuda_device(), machine);
}

}  // namespace frugal::engine
