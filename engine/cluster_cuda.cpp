#include <fmt/format.h>

#include "engine/cluster_threads.h"
#include "engine/comm/nccl.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"

namespace frugal {

std::unique_ptr<Cluster> make_cuda_cluster(const RunConfig& config) {
  config.validate();
  const int ranks = config.tensor_parallel;
  const size_t available = gpus().size();
  // A lone rank of one is whole, and says nothing that a machine would have to take time for.
  if (ranks == 1) return make_lone_cuda_cluster(config, Machine{});
  if (static_cast<size_t>(ranks) > available)
    throw InputError(
        fmt::format("tensor-parallel size ({}) is more than the GPUs of this machine ({}); choose "
                    "at most that, or measure one rank alone, with modelled communication",
                    ranks, available));
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  for (int r = 0; r < ranks; ++r) {
    devices.push_back(make_cuda_device(r));
    members.push_back(devices.back().get());
  }
  return std::make_unique<ThreadedCluster>(config, std::move(devices), make_nccl_group(members));
}

}  // namespace frugal
