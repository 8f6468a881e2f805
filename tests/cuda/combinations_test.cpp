// Ranks that share a GPU, beside one rank on it.
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"
#include "tests/combinations/serial.h"

namespace frugal::engine {
namespace {

std::unique_ptr<Cluster> on_one_gpu(const RunConfig& run) {
  constexpr int most = 16;
  if (run.ranks() > most) throw InputError("so many ranks are not tried on one GPU");
  return make_shared_cuda_cluster(run);
}

/// Only bf16 has fused attention there.
void choose_separate_attention(RunConfig& run) {
  if (run.type != DType::bf16 && run.context_parallel == 1) run.attention = AttentionKind::separate;
}

TEST(CombinationsOnTheGpu, AreRefusedOrEqualTheSerialRun) {
  testing::expect_combinations_equal_serial(
      {.cluster = on_one_gpu, .adapt = choose_separate_attention}, 20);
}

}  // namespace
}  // namespace frugal::engine
