#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/train/module_run.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// One rank of t on its own holds and computes what rank 0 of all t does.
namespace frugal::engine {
namespace {

using testing::small_gpt;

const Machine& machine() {
  static const Machine m = find_machine("a100-selene");
  return m;
}

struct LoneCase {
  RunConfig config;
};

void PrintTo(const LoneCase& of, std::ostream* out) {
  *out << fmt::format("t{}_{}", of.config.tensor_parallel, name_of(of.config.recompute));
}

std::vector<LoneCase> lone_configurations() {
  std::vector<LoneCase> all;
  for (const int t : {2, 8})
    for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
      RunConfig& c = all.emplace_back(small_gpt()).config;
      c.tensor_parallel = t;
      c.recompute = r;
      c.sequence_parallel = (t == 2) == (r == Recompute::none);
      c.stored_masks = r != Recompute::selective;
      c.type = t == 2 ? DType::f32 : DType::bf16;
    }
  return all;
}

class LoneRank : public ::testing::TestWithParam<LoneCase> {
 protected:
  const RunConfig& config = GetParam().config;
  std::unique_ptr<Cluster> full = make_cpu_cluster(config, 1);
  std::unique_ptr<Cluster> lone = make_lone_cpu_cluster(config, 1, machine());
};

TEST_P(LoneRank, HoldsForALayerWhatRankZeroOfAllHolds) {
  const ModuleMemory expected = ModuleRun(*full).memory();
  const ModuleMemory actual = ModuleRun(*lone).memory();
  EXPECT_EQ(actual.after_forward, expected.after_forward);
  EXPECT_EQ(actual.peak, expected.peak);
  EXPECT_EQ(actual.peak_total, expected.peak_total);
  EXPECT_EQ(actual.forward_flops, expected.forward_flops);
  EXPECT_EQ(actual.backward_flops, expected.backward_flops);
  EXPECT_GT(actual.peak_total, 0);
}

TEST_P(LoneRank, HoldsForATrainingStepWhatRankZeroOfAllHolds) {
  const Batch batch = random_batch(config, 0);
  StepResult results[2];
  BytesPerKind held[2], peaks[2], at_peak[2];
  for (const bool alone : {false, true}) {
    Cluster& cluster = alone ? *lone : *full;
    Trainer trainer(cluster, config, {});
    results[alone] = trainer.step(batch);
    const Ledger& ledger = cluster.rank(0).ledger;
    held[alone] = ledger.current_per_kind();
    peaks[alone] = ledger.peak_per_kind();
    at_peak[alone] = ledger.at_peak();
  }
  EXPECT_EQ(held[true], held[false]);
  EXPECT_EQ(peaks[true], peaks[false]);
  EXPECT_EQ(at_peak[true], at_peak[false]);
  EXPECT_EQ(results[true].flops, results[false].flops) << "of all t ranks";
}

TEST_P(LoneRank, ComputesFiniteNumbersThatMeanNothing) {
  const Batch batch = random_batch(config, 0);
  Trainer trainer(*lone, config, {});
  for (int i = 0; i < 3; ++i) {
    const StepResult result = trainer.step(batch);
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_TRUE(std::isnan(result.gradient_norm));
    EXPECT_GT(result.seconds, 0);
  }
  EXPECT_TRUE(std::isnan(trainer.evaluate(batch)));
  EXPECT_THROW((void)trainer.snapshot(batch[0]), std::logic_error);
  lone->run([&](Rank& rank) {
    Gpt model(rank);
    const Pass pass(rank);
    Gpt::Saved saved;
    const auto on_device = [&](const std::vector<int32_t>& values) {
      const Tensor tensor = rank.allocate(DType::i32, {config.model.sequence, config.micro_batch});
      rank.device.copy_from_host(tensor, values.data());
      return tensor;
    };
    const Tensor losses =
        model.forward(pass, {{}, on_device(batch[0].tokens), on_device(batch[0].labels), 1}, saved);
    model.backward(pass, {}, 1, std::move(saved));
    std::vector<View> views{losses};
    for (const Parameter* p : model.parameters()) views.push_back(p->grad());
    for (const View& view : views) {
      ASSERT_EQ(view.type, DType::f32);
      std::vector<float> values(static_cast<size_t>(view.size()));
      rank.device.copy_to_host(values.data(), view);
      for (const float value : values) ASSERT_TRUE(std::isfinite(value));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, LoneRank, ::testing::ValuesIn(lone_configurations()),
                         ::testing::PrintToStringParamName());

TEST(LoneRanks, HaveRankZerosWeights) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 4;
  const auto weights_of = [&](Cluster& cluster) {
    std::vector<float> weights;
    cluster.run([&](Rank& rank) {
      Gpt model(rank);
      if (rank.tensor_group.rank() != 0) return;
      for (const Parameter* p : model.parameters()) {
        std::vector<float> values(static_cast<size_t>(p->view().size()));
        rank.device.copy_to_host(values.data(), p->view());
        weights.insert(weights.end(), values.begin(), values.end());
      }
    });
    return weights;
  };
  const auto expected = weights_of(*make_cpu_cluster(c, 1));
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(weights_of(*make_lone_cpu_cluster(c, 1, machine())), expected);
}

TEST(LoneRanks, OfOneAreWholeAndComputeTheSerialRun) {
  const RunConfig c = small_gpt();
  const Batch batch = random_batch(c, 0);
  const auto lone = make_lone_cpu_cluster(c, 1, machine());
  const auto full = make_cpu_cluster(c, 1);
  EXPECT_TRUE(lone->whole());
  EXPECT_EQ(Trainer(*lone, c, {}).step(batch).loss, Trainer(*full, c, {}).step(batch).loss);
}

/// No duration has an upper bound here: the machine may be busy with something else.
TEST(LoneRanks, TakeTheTimeOfTheirCollectives) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  Machine slow = machine();
  slow.collective_latency = 3e-3;
  const ModuleTime time = ModuleRun(*make_lone_cpu_cluster(c, 1, slow)).time();
  // Two all-reduces and the meeting at the end, forward and backward.
  EXPECT_GE(time.forward, 3 * 3e-3);
  EXPECT_GE(time.backward, 3 * 3e-3);
}

TEST(LoneRanks, OnCudaAreRefusedWhereThereIsNone) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THROW((void)make_lone_cuda_cluster(small_gpt(), machine()), InputError);
}

}  // namespace
}  // namespace frugal::engine
