#include "engine/cluster_threads.h"
#include "engine/comm/local.h"
#include "engine/comm/modelled.h"
#include "engine/comm/staged.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/device.h"

namespace frugal {
namespace {

/// The axis along which one rank stands for all, if it does.
std::optional<Axis> represented(GroupUse use) {
  if (use == GroupUse::tensor) return Axis::tensor;
  if (use == GroupUse::data) return Axis::data;
  return std::nullopt;
}

std::unique_ptr<Cluster> make_lone_cluster(const RunConfig& config, std::unique_ptr<Device> device,
                                           const Machine& machine) {
  config.validate();
  if (config.pipeline_parallel > 1)
    throw InputError(fmt::format(
        "pipeline-parallel size is {}: a lone rank has no other stages to exchange messages with; "
        "use 1, or --on virtual:MACHINE",
        config.pipeline_parallel));
  const CostModel costs(machine);
  const Layout all = layout_of(config);
  Device& alone = *device;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::move(device));
  return std::make_unique<ThreadedCluster>(
      config, Layout{}, std::move(devices),
      [&](GroupUse use, const std::vector<int>&) -> std::unique_ptr<Group> {
        const auto axis = represented(use);
        const int nodes = static_cast<int>(machine.devices_per_node);
        return std::make_unique<ModelledGroup>(alone, costs,
                                           axis ? all.group(*axis, 0, nodes) : CostModel::Group{});
      });
}

}  // namespace

std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine) {
  if (config.pipeline_parallel == 1)
    return make_lone_cluster(config, std::make_unique<VirtualDevice>(machine), machine);
  config.validate();
}

std::unique_ptr<Cluster> make_lone_cpu_cluster(const RunConfig& config, int threads,
                                               const Machine& machine) {
  return make_lone_cluster(config, std::make_unique<CpuDevice>(threads), machine);
}

std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine) {
  return make_lone_cluster(config, make_cuda_device(), machine);
}

}  // namespace frugal
