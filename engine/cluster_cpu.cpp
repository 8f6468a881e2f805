#include <algorithm>

#include "engine/cluster_threads.h"
#include "engine/comm/local.h"
#include "kernels/cpu/device.h"

namespace frugal {

std::unique_ptr<Cluster> make_cpu_cluster(const RunConfig& config, int threads) {
  config.validate();
  const int ranks = config.tensor_parallel;
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < ranks; ++r)
    devices.push_back(std::make_unique<CpuDevice>(std::max(1, threads / ranks)));
  return std::make_unique<ThreadedCluster>(config, std::move(devices),
                                           std::make_unique<LocalGroup>(ranks));
}

}  // namespace frugal
