#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/cluster/threads.h"
#include "engine/comm/modelled.h"
#include "engine/comm/staged.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {
namespace {

/// Position in its group of the rank that stands for all. Of a causal ring the last one computes
/// most, and the others wait for it; where all compute as much, it has most queries at a time, and
/// so holds most.
int place_in(const Topology& all, const GroupSpec& group) {
  int place = 0, inner = 1;
  for (const Topology::Axis& axis : all.axes(group)) {
    if (axis.name == "ring") place += (axis.size - 1) * inner;
    inner *= axis.size;
  }
  return place;
}

/// The ranks of a group that one of them stands for; it is alone where other stages are in it.
CostModel::Group members_of(const Machine& machine, const Topology& all, const GroupSpec& group,
                            int stage) {
  if (!within_a_stage(group)) return {};
  const auto devices = std::max<int64_t>(machine.devices_per_node, 1);
  return all.on_nodes(group, stage, static_cast<int>(devices));
}

/// Tells a device whose collectives leave their node.
void note_crossing(VirtualDevice& device, const Topology& all, const GroupSpec& group, int stage) {
  const CostModel::Group members = members_of(device.machine(), all, group, stage);
  if (members.size > members.per_node) device.cross_nodes(device.stream(group.stream));
}

/// The group of a rank that stands for all members, or is alone.
std::unique_ptr<Group> represented(Device& device, const Machine& machine, const Topology& all,
                                   const GroupSpec& group, int stage) {
  return std::make_unique<ModelledGroup>(device, CostModel(machine),
                                         members_of(machine, all, group, stage),
                                         place_in(all, group), group.stream);
}

/// The machine as if whatever goes over its links were there at once.
Machine without_distance(Machine machine) {
  machine.link_bandwidth = machine.network_bandwidth = std::numeric_limits<double>::infinity();
  machine.collective_latency = machine.link_latency = machine.network_latency = 0;
  return machine;
}

/// A group of which one stage is here. Messages and sums between stages are the schedule's, whose
/// time is not this rank's own.
std::unique_ptr<Group> of_stages(Device& device, const Machine& machine, const GroupSpec& group,
                                 int stage, int stages) {
  const bool is_end = stage == 0 || stage + 1 == stages;
  if (group.ends && !is_end) return alone_on(device);  // a stage between the ends is its own end
  const int size = group.ends ? 2 : stages;
  const int place = group.ends && stage > 0 ? 1 : stage;
  return std::make_unique<ModelledGroup>(device, CostModel(without_distance(machine)),
                                         CostModel::Group{size, size, 1}, place, group.stream);
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
  const Topology all = topology_of(config);
  const int own = stage.value_or(0);
  Device& alone = *device;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::move(device));
  return std::make_unique<ThreadedCluster>(
      config, Topology(ParallelSizes{}), std::move(devices),
      [&](const GroupSpec& group, const std::vector<int>& /*ranks*/) {
        return within_a_stage(group) || all.stages() == 1
                   ? represented(alone, machine, all, group, own)
                   : of_stages(alone, machine, group, own, all.stages());
      });
}

/// Virtual device of a run. Streams of collectives have a fixed order: a device adds in that order
/// how much several of them delay each other.
std::unique_ptr<VirtualDevice> virtual_device(const RunConfig& config, const Machine& machine) {
  const auto on_node = std::min<int64_t>(machine.devices_per_node, config.ranks());
  auto device =
      std::make_unique<VirtualDevice>(machine, config.program.device, static_cast<int>(on_node));
  for (const StreamSpec& stream :
       {streams::tensors, streams::sequences, streams::replicas, streams::stages})
    (void)device->stream(stream);
  return device;
}

}  // namespace

std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine,
                                              double deadline) {
  config.validate();
  require_able(machine, config.ranks(), config.type);
  const Topology all = topology_of(config);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<VirtualDevice*> stages;
  for (int stage = 0; stage < all.stages(); ++stage) {
    auto device = virtual_device(config, machine);
    stages.push_back(device.get());
    devices.push_back(std::move(device));
  }
  const std::shared_ptr<Exchanges> exchanges = exchanges_of(stages);
  auto cluster = std::make_unique<ThreadedCluster>(
      config, Topology(ParallelSizes{.stages = all.stages()}), std::move(devices),
      [&](const GroupSpec& group, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
        const auto stage = static_cast<size_t>(ranks.front());
        if (ranks.size() == 1) {
          note_crossing(*stages[stage], all, group, ranks.front());
          return represented(*stages[stage], machine, all, group, ranks.front());
        }
        const bool same = config.tensor_parallel > 1 && !config.sequence_parallel;
        return std::make_unique<StagedGroup>(stages, all, group, exchanges,
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
  auto device = virtual_device(config, machine);
  const Topology all = topology_of(config);
  for (const GroupSpec& group : all_groups) note_crossing(*device, all, group, stage.value_or(0));
  return make_lone_cluster(config, std::move(device), machine, stage);
}

}  // namespace frugal::engine
