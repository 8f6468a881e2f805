#include <fmt/format.h>

#include "engine/cluster_threads.h"
#include "engine/comm/nccl.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"

namespace frugal {

std::string why_not_on_gpus(const RunConfig& config, int ranks, int gpus) {
  if (ranks > gpus)
    return fmt::format(
        "--tensor-parallel is {} and there {} {} GPU{}; choose a smaller one, or run one of the "
        "ranks with --lone-rank MACHINE",
        ranks, gpus == 1 ? "is" : "are", gpus, gpus == 1 ? "" : "s");
  if (ranks > 1)
    if (std::string why = why_no_nccl(); !why.empty()) return why;
  return config.attention == AttentionKind::fused ? why_no_fused_attention(config.type) : "";
}

std::unique_ptr<Cluster> make_cuda_cluster(const RunConfig& config) {
  config.validate();
  const int ranks = config.tensor_parallel;
  const std::string why_not = why_not_on_gpus(config, ranks, static_cast<int>(gpus().size()));
  if (!why_not.empty()) throw InputError(why_not);
  // A lone rank of one is whole, and says nothing that a machine would have to take time for.
  if (ranks == 1) return make_lone_cuda_cluster(config, Machine{});
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  for (int r = 0; r < ranks; ++r) {
    devices.push_back(make_cuda_device(r));
    members.push_back(devices.back().get());
  }
  return std::make_unique<ThreadedCluster>(config, std::move(devices), make_nccl_group(members));
}

}  // namespace frugal
