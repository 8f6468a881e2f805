// Ranks that share a GPU, beside one rank on it.
#include <gtest/gtest.h>

#include "engine/cluster/cluster.h"
#include "kernels/support/error.h"
#include "tests/combinations/serial.h"

namespace frugal::engine {
namespace {

std::unique_ptr<Cluster> on_one_gpu(const RunConfig& run) {
  constexpr int most = 16;
  if (run.ranks() > most) throw InputError("so many ranks are not tried on one GPU");
  return make_shared_cuda_cluster(run);
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
