#pragma once
#include "engine/cluster_threads.h"
#include "engine/nccl_grid.h"
#include "kernels/cuda/device.h"
#include "tests/engine/support.h"

namespace frugal::testing {

/// The cluster of make_cuda_cluster(), on devices that are not there.
inline std::unique_ptr<Cluster> make_fake_cluster(const RunConfig& config, double deadline = 60) {
  const Layout layout = layout_of(config);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  for (int r = 0; r < layout.ranks(); ++r) {
    devices.push_back(std::make_unique<FRUGAL_CUDA::CudaDevice>());
    members.push_back(devices.back().get());
  }
  return std::make_unique<ThreadedCluster>(config, layout, std::move(devices),
                                           nccl_groups(members, deadline));
}

inline RunConfig of_ranks(int ranks) {
  RunConfig c = small_gpt();
  c.tensor_parallel = ranks;
  return c;
}

}  // namespace frugal::testing
