#include <algorithm>

#include "engine/cluster_threads.h"
#include "engine/comm/local.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/device.h"

namespace frugal {

std::unique_ptr<Cluster> make_cpu_cluster(const RunConfig& config, int threads, Pinning pinning) {
  config.validate();
  const int ranks = config.tensor_parallel;
  const int threads_each = std::max(1, threads / ranks);
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(std::make_unique<CpuDevice>(threads_each));
  auto cluster = std::make_unique<ThreadedCluster>(config, std::move(devices),
                                                   std::make_unique<LocalGroup>(ranks));
  if (pinning == Pinning::cores) cluster->pin(divide_cores(ranks, threads_each));
  return cluster;
}

}  // namespace frugal
