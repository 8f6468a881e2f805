#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

/// Tells a device whose collectives leave their node.
void note_crossing(VirtualDevice& device, const Machine& machine, const Layout& all, GroupUse use,
                   int stage) {
  const CostModel::Group group = members_of(machine, all, use, stage);
  if (group.size > group.per_node) device.cross_nodes(stream_of(use));
}

/// The group of a rank that stands for all members, or is alone.
std::unique_ptr<Group> represented(Device& device, const Machine& machine, const Layout& all,
                                   GroupUse use, int stage, const RunConfig& config) {
  return std::make_unique<ModelledGroup>(device, CostModel(machine),
                                         members_of(machine, all, use, stage),
                                         place_in(use, config), stream_of(use));
}

/// The machine as if whatever goes over its links were there at once.
Machine without_distance(Machine machine) {
  machine.link_bandwidth = machine.network_bandwidth = std::numeric_limits<double>::infinity();
  machine.collective_latency = machine.link_latency = machine.network_latency = 0;
  return machine;
}

/// A group of which one stage is here. Messages and sums between stages are the schedule's, whose
/// time is not this rank's own.
std::unique_ptr<Group> of_stages(Device& device, const Machine& machine, GroupUse use, int stage,
                                 int stages) {
  const bool of_ends = use == GroupUse::ends;
  const bool is_end = stage == 0 || stage + 1 == stages;
  if (of_ends && !is_end) return alone_on(device);  // a stage between the ends is its own end
  const int size = of_ends ? 2 : stages;
  const int place = of_ends && stage > 0 ? 1 : stage;
  return std::make_unique<ModelledGroup>(device, CostModel(without_distance(machine)),
                                         CostModel::Group{size, size}, place, stream_of(use));
}

/// Upper bound of NCCL's kernels: as many blocks as a communicator has here (docs/cuda.md), and
/// three bytes of memory for each on a link. A ring reads what it was sent and its own, and writes
/// what it is sent.
CollectiveLoad load_of(const Machine& machine) {
  constexpr int blocks = 16, bytes_per_byte = 3;
  const double fraction = std::max(machine.link_fraction, machine.gather_fraction);
  return {blocks, bytes_per_byte * machine.link_bandwidth * fraction};
}

void check_stage(const RunConfig& config, std::optional<int> stage) {
  const int stages = config.pipeline_parallel;
  if (stages > 1 && !stage)
    throw InputError(
        fmt::format("pipeline-parallel size is {}: a lone rank has no other stages to exchange "
                    "messages with; use 1, or on=virtual:MACHINE",
                    stages));
  if (stage && (*stage < 0 || *stage >= stages))
    throw InputError(fmt::format("stage is {}; it must be from 0 to {}", *stage, stages - 1));
}

std::unique_ptr<Cluster> make_lone_cluster(const RunConfig& config, std::unique_ptr<Device> device,
                                           const Machine& machine, std::optional<int> stage) {
  config.validate();
  require_able(machine, config.ranks(), config.type);
  check_stage(config, stage);
  const Layout all = layout_of(config);
  const int own = stage.value_or(0);
  Device& alone = *device;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::move(device));
  return std::make_unique<ThreadedCluster>(
      config, Layout{}, std::move(devices), [&](GroupUse use, const std::vector<int>& /*ranks*/) {
        return within_a_stage(axis_of(use)) || all.stages == 1
                   ? represented(alone, machine, all, use, own, config)
                   : of_stages(alone, machine, use, own, all.stages);
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
          note_crossing(*stages[stage], machine, all, use, ranks.front());
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
                                               const Machine& machine, std::optional<int> stage) {
  return make_lone_cluster(config, std::make_unique<CpuDevice>(threads), machine, stage);
}

std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine,
                                                std::optional<int> stage) {
  const bool loads = collectives_load();  // refuses what it does not know, first
  std::unique_ptr<Device> device = make_cuda_device();
  if (loads) load_by_collectives(*device, load_of(machine));
  return make_lone_cluster(config, std::move(device), machine, stage);
}

std::unique_ptr<Cluster> make_lone_virtual_cluster(const RunConfig& config, const Machine& machine,
                                                   std::optional<int> stage) {
  const auto on_node =
      static_cast<int>(std::min<int64_t>(machine.devices_per_node, config.ranks()));
  auto device = std::make_unique<VirtualDevice>(machine, config.program.software, on_node);
  for (int use = 0; use < group_uses; ++use)
    note_crossing(*device, machine, layout_of(config), static_cast<GroupUse>(use),
                  stage.value_or(0));
  return make_lone_cluster(config, std::move(device), machine, stage);
}

}  // namespace frugal::engine
