#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster/threads.h"
#include "engine/comm/local.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/device.h"

namespace frugal::engine {

int threads_each(const RunConfig& config, int threads) {
  return std::max(1, threads / config.ranks());
}

std::vector<Processors> cores_of_ranks(const RunConfig& config, int threads) {
  return divide_cores(config.ranks(), threads_each(config, threads));
}

std::unique_ptr<Group> group_of_threads(const GroupSpec& group, const std::vector<int>& ranks,
                                        double deadline) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(fmt::format("rank {}", rank));
  // A tied table's gradients are summed beside the next batch: neither end waits for the other to
  // wait.
  const Parts parts = group.ends ? Parts::by_last : Parts::by_each;
  return std::make_unique<LocalGroup>(static_cast<int>(ranks.size()), deadline, std::move(names),
                                      parts);
}

std::unique_ptr<Cluster> make_cpu_cluster(const RunConfig& config, int threads, double deadline,
                                          std::vector<Processors> processors,
                                          std::optional<int64_t> memory) {
  config.validate();
  const Topology topology = topology_of(config);
  const int each = threads_each(config, threads);
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < topology.ranks(); ++r)
    devices.push_back(memory ? std::make_unique<CpuDevice>(each, *memory)
                             : std::make_unique<CpuDevice>(each));
  auto cluster = std::make_unique<ThreadedCluster>(
      config, topology, std::move(devices),
      [&](const GroupSpec& group, const std::vector<int>& ranks) {
        return group_of_threads(group, ranks, deadline);
      },
      true);
  cluster->give_up_after(deadline);
  cluster->pin(std::move(processors));
  return cluster;
}

}  // namespace frugal::engine
