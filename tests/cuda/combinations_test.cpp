// Ranks that share a GPU, beside one rank on it.
#include <gtest/gtest.h>

#include "engine/cluster/threads.h"
#include "engine/comm/decorated.h"
#include "engine/comm/modelled.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "tests/combinations/serial.h"

namespace frugal::engine {
namespace {

/// Tensors go between them through the host's memory.
std::unique_ptr<Cluster> on_one_gpu(const RunConfig& run) {
  constexpr int most = 16;
  if (run.ranks() > most) throw InputError("so many ranks are not tried on one GPU");
  run.validate();
  if (const std::string why = why_not_on_gpus(run, 1, 1); !why.empty()) throw InputError(why);
  const Topology topology = topology_of(run);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> all;
  for (int r = 0; r < topology.ranks(); ++r)
    all.push_back(devices.emplace_back(make_cuda_device(0)).get());
  const auto through_host = [all](const GroupSpec& group, const std::vector<int>& ranks) {
    std::vector<Device*> members;
    for (const int rank : ranks) members.push_back(all.at(static_cast<size_t>(rank)));
    if (members.size() == 1) return alone_on(*members.front());
    constexpr double deadline = 600;
    return std::unique_ptr<Group>(
        std::make_unique<ThroughHostGroup>(group_of_threads(group, ranks, deadline), members));
  };
  return std::make_unique<ThreadedCluster>(run, topology, std::move(devices), through_host);
}

/// Only bf16 has fused attention there, of heads that are not small, and its dropout is not the
/// serial run's.
void avoid_what_cudnn_lacks(RunConfig& run) {
  if (run.type != DType::bf16 && run.context_parallel == 1) run.attention = AttentionKind::separate;
  if (run.attention != AttentionKind::fused) return;
  run.model.hidden = 64;
  run.model.dropout = 0;
}

TEST(CombinationsOnTheGpu, AreRefusedOrEqualTheSerialRun) {
  testing::expect_combinations_equal_serial(
      {.cluster = on_one_gpu, .adapt = avoid_what_cudnn_lacks}, 20);
}

}  // namespace
}  // namespace frugal::engine
