// An optimizer's step on a GPU: the host neither waits for the gradient's norm nor needs it.
#include <gmock/gmock.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/train/trainer.h"
#include "kernels/support/error.h"
#include "tests/cuda/losses.h"

namespace frugal::engine {
namespace {

double count_of(const DeviceWork& work, std::string_view name) {
  const auto found = std::ranges::find(DeviceWork::names, name);
  return work.operations.at(static_cast<size_t>(found - DeviceWork::names.begin())).count;
}

/// Counts so far, when an operation is issued.
struct Issued {
  double sums, updates, waits;
};

std::vector<double> weights_of(Trainer& trainer) {
  std::vector<double> all;
  trainer.each_weight([&](const std::string&, const HostTensor& weight) {
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  });
  return all;
}

/// Waits from the last sum of the norm to the last update. Losses are summed before.
TEST(StepOnTheGpu, IsIssuedWithoutWaitingForTheNorm) {
  RunConfig run = tiny_gpt();
  run.microbatches = 2;
  const auto cluster = make_cuda_cluster(run);
  constexpr double clip = 0.01;
  Trainer trainer(*cluster, run, {.optimizer = {.clip = clip}, .steps = 2});
  (void)trainer.step(random_batch(run, 0));
  Device& device = cluster->rank(0).device;
  const auto now = [&] {
    const DeviceWork& work = device.work();
    return Issued{count_of(work, "sum"), count_of(work, "adam"), work.calls.synchronisations};
  };
  const Issued before = now();
  std::vector<Issued> seen;
  device.before_operations([&] { seen.push_back(now()); });
  const StepResult step = trainer.step(random_batch(run, 1));
  device.before_operations({});
  EXPECT_GT(step.gradient_norm, clip) << "nothing was clipped";
  const auto sums = std::ranges::find(seen, seen.back().sums, &Issued::sums);
  const auto updated = std::ranges::find(seen, seen.back().updates, &Issued::updates);
  EXPECT_GT(sums->sums, before.sums);
  ASSERT_LT(sums, updated);
  EXPECT_GT(updated->updates, before.updates);
  EXPECT_EQ(updated->waits, sums->waits);
  EXPECT_GT(now().waits, updated->waits) << "the norm and the losses are read behind them";
}

/// Numbers that no longer mean anything end a run, with the weights that it had.
TEST(StepOnTheGpu, LeavesTheWeightsWhereTheNormIsNotFinite) {
  RunConfig run = tiny_gpt();
  run.model.dropout = 0;
  for (const DType type : {DType::f32, DType::bf16}) {
    run.type = type;
    const auto cluster = make_cuda_cluster(run);
    Trainer trainer(*cluster, run, {.optimizer = {.learning_rate = 1e30}, .steps = 2});
    (void)trainer.step(random_batch(run, 0));
    const std::vector<double> before = weights_of(trainer);
    try {
      (void)trainer.step(random_batch(run, 1));
      ADD_FAILURE() << "weights of 1e30 gave a gradient";
    } catch (const WrongNumbers& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("in step 2;"));
    }
    EXPECT_EQ(weights_of(trainer), before) << name_of(type);
  }
}

}  // namespace
}  // namespace frugal::engine
