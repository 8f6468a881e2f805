// Training at a real size in a GPU's memory by pages: what it reserves, and when it asks for it.
#include <gtest/gtest.h>

#include <vector>

#include "engine/train/trainer.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"

namespace frugal::engine {
namespace {

RunConfig gpt2() {
  RunConfig run;
  run.model = {.name = "gpt2-124m",
               .layers = 12,
               .hidden = 768,
               .heads = 12,
               .sequence = 1024,
               .vocabulary = 50304,
               .dropout = 0.1};
  run.type = DType::bf16;
  run.micro_batch = 4;
  run.microbatches = 2;
  run.attention = AttentionKind::fused;
  return run;
}

/// Nothing is computed, so that these are all that takes long.
class PagedTraining : public ::testing::Test {
 protected:
  PagedTraining() { emulator::gpu().computes = false; }
  ~PagedTraining() override { emulator::gpu().computes = true; }
};

/// Memory that the ledger does not count: the library's workspace of 32 MiB, and what kernels pass
/// to each other.
TEST_F(PagedTraining, ReservesWhatTheLedgerHasAndFreesNothingInAStep) {
  using Change = void (*)(RunConfig&);
  const std::pair<const char*, Change> changes[] = {
      {"as it is", [](RunConfig&) {}},
      {"separate attention", [](RunConfig& c) { c.attention = AttentionKind::separate; }},
      {"full recomputation", [](RunConfig& c) { c.recompute = Recompute::full; }},
      {"parts", [](RunConfig& c) { c.mlp_chunks = c.head_chunks = 4; }},
      {"steps in backward", [](RunConfig& c) { c.step_in_backward = true, c.microbatches = 1; }},
      {"all in float32",
       [](RunConfig& c) { c.type = DType::f32, c.attention = AttentionKind::separate; }},
  };
  for (const auto& [name, change] : changes) {
    RunConfig run = gpt2();
    change(run);
    const auto cluster = make_cuda_cluster(run);
    TrainConfig train{.optimizer = {}, .steps = 5};
    if (run.step_in_backward) train.optimizer.clip = 0;
    Trainer trainer(*cluster, run, train);
    std::vector<int64_t> calls, reserved;
    for (int64_t step = 0; step < train.steps; ++step) {
      (void)trainer.step(random_batch(run, step));
      calls.push_back(emulator::arena::page_calls());
      reserved.push_back(cluster->rank(0).device.reserved());
    }
    const auto peak = static_cast<double>(cluster->rank(0).ledger.peak());
    EXPECT_GE(static_cast<double>(reserved.back()), peak) << name;
    EXPECT_LE(static_cast<double>(reserved.back()), 1.01 * peak + 48.0 * (1 << 20)) << name;
    EXPECT_GT(calls[0], 0) << name;
    EXPECT_EQ(calls[4], calls[2]) << name << ": pages were taken, mapped or given back";
    EXPECT_EQ(reserved[4], reserved[1]) << name;
  }
}

}  // namespace
}  // namespace frugal::engine
