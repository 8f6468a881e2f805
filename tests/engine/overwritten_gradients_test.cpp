#include <gtest/gtest.h>

#include <cstring>

#include "engine/data/single_batch.h"
#include "engine/schedule/schedules.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// A step whose first products overwrite gradients is the step that clears them first.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::small_llama;

OptimizerOptions unclipped() {
  OptimizerOptions options;
  options.clip = 0;  // a norm's sum has another order, where vectors lie elsewhere
  return options;
}

/// The losses of a few steps, and the weights after them. The gradients' memory has held others
/// before each but the first step.
std::vector<double> trained(RunConfig config, bool overwrite) {
  config.overwrite_gradients = overwrite;
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, {.optimizer = unclipped(), .steps = 4});
  trainer.warm_up(random_batch(config, 9));
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) all.push_back(trainer.step(random_batch(config, i)).loss);
  trainer.each_weight([&](const std::string&, const HostTensor& weight) {
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  });
  return all;
}

FRUGAL_LEFT_OUT(thread, "OverwrittenGradients.*",
                "ranks whose threads do what those of ParallelEqualsSerial and PipelineOracle do");
TEST(OverwrittenGradients, AreTheClearedOnes) {
  RunConfig stages = small_gpt();
  stages.schedule = ScheduleKind::zero_bubble_v;
  stages.model.layers = stages.microbatches = 4;
  stages.pipeline_parallel = stages.chunks = 2;
  stages.head_chunks = 3;
  EXPECT_EQ(trained(stages, true), trained(stages, false));
}

/// A rank's gradients hold no number before what is first added to each.
TEST(OverwrittenGradients, HaveNothingOfWhatTheirMemoryHeld) {
  for (RunConfig config : {small_gpt(), small_llama()}) {
    config.overwrite_gradients = true;
    const auto cluster = make_cpu_cluster(config, 1);
    cluster->run([&](Rank& rank) {
      StageModel model(rank);
      const ParameterList parameters = model.parameters();
      Optimizer optimizer(rank, parameters, unclipped());
      optimizer.clear_gradients();
      for (const Parameter* p : parameters) {
        EXPECT_EQ(p->fresh, p->view().shape.dims > 1) << p->name;
        constexpr int not_a_number = 0xff;
        if (p->fresh)
          std::memset(p->grad().data, not_a_number, static_cast<size_t>(p->grad().bytes()));
      }
      const Pass pass(rank);
      Gpt::Saved saved;
      const MicroBatch batch = random_batch(config, 0).front();
      Gpt& part = model.part(0);
      (void)part.forward(pass,
                         {.hidden = {},
                          .tokens = local_integers(rank, batch.tokens),
                          .target = {local_integers(rank, batch.labels), 1}},
                         saved);
      (void)part.backward(pass, {}, 1, std::move(saved));
      for (const Parameter* p : parameters) {
        EXPECT_FALSE(p->fresh) << p->name;
        for (int64_t i = 0; i < p->grad().size(); ++i)
          ASSERT_TRUE(std::isfinite(p->grad().as<float>()[i])) << p->name;
      }
    });
  }
}

TEST(OverwrittenGradients, ThatNothingWasAddedToAreCleared) {
  RunConfig config = small_gpt();
  config.overwrite_gradients = true;
  const auto cluster = make_cpu_cluster(config, 1);
  cluster->run([&](Rank& rank) {
    StageModel model(rank);
    Optimizer optimizer(rank, model.parameters(), unclipped());
    for (const Parameter* p : model.parameters()) rank.run(Fill{p->grad(), 3});
    optimizer.clear_gradients();
    optimizer.reduction().complete();
    EXPECT_EQ(optimizer.update().norm_of(optimizer.update().squared_norm()), 0);
  });
}

/// Bytes that are no longer moved: each product's sum, once to clear it and once to read it.
TEST(OverwrittenGradients, AreNeitherClearedNorRead) {
  RunConfig config = small_gpt();
  config.microbatches = 3;
  const auto bytes = [&](bool overwrite) {
    config.overwrite_gradients = overwrite;
    const auto cluster = make_cpu_cluster(config, 2);
    Trainer trainer(*cluster, config, {});
    (void)trainer.step(random_batch(config, 0));
    (void)trainer.step(random_batch(config, 1));
    return trainer.work().done.total().cost.bytes;
  };
  const double products = 64 * 64 + 2 * 12 * 64 * 64;
  EXPECT_EQ(bytes(false) - bytes(true), 2 * 4 * products);
}

}  // namespace
}  // namespace frugal::engine
