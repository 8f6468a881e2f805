#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/data/single_batch.h"
#include "engine/schedule/schedules.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// A step whose first products overwrite gradients is the step that clears them first.
namespace frugal::engine {
namespace {

using testing::small_gemma;
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

void expect_same(const RunConfig& config, const std::string& what) {
  const std::vector<double> overwritten = trained(config, true);
  EXPECT_EQ(overwritten, trained(config, false)) << what;
}

FRUGAL_LEFT_OUT(thread, "OverwrittenGradients.*",
                "ranks whose threads do what those of ParallelEqualsSerial and PipelineOracle do");
TEST(OverwrittenGradients, AreTheClearedOnesInEverySchedule) {
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    RunConfig config = small_gpt();
    config.schedule = kind;
    config.model.layers = 4;
    config.pipeline_parallel = 2;
    config.chunks = config.schedule.has_chunks ? 2 : 1;
    config.microbatches = 4;
    config.micro_batch = 1;
    expect_same(config, std::string(name_of(config.schedule)));
  }
}

TEST(OverwrittenGradients, AreTheClearedOnesWhateverARunDoes) {
  using Change = void (*)(RunConfig&);
  const std::pair<const char*, Change> changes[] = {
      {"a GPT", [](RunConfig&) {}},
      {"microbatches", [](RunConfig& c) { c.microbatches = 3; }},
      {"a Llama", [](RunConfig& c) { c = small_llama(); }},
      {"a Gemma", [](RunConfig& c) { c = small_gemma(); }},
      {"float64", [](RunConfig& c) { c.type = DType::f64; }},
      {"bf16", [](RunConfig& c) { c.type = DType::bf16; }},
      {"pure bf16",
       [](RunConfig& c) {
         c.type = DType::bf16;
         c.precision = Precision::pure;
         c.mlp_chunks = c.head_chunks = 3;
       }},
      {"parts",
       [](RunConfig& c) {
         c.mlp_chunks = c.head_chunks = 3;
         c.head_tiles = 2;
       }},
      {"tensor and sequence",
       [](RunConfig& c) {
         c.tensor_parallel = 2;
         c.sequence_parallel = true;
         c.recompute = Recompute::selective;
       }},
      {"replicas", [](RunConfig& c) { c.data_parallel = 2; }},
      {"full recomputation", [](RunConfig& c) { c.recompute = Recompute::full; }},
  };
  for (const auto& [name, change] : changes) {
    RunConfig config = small_gpt();
    change(config);
    expect_same(config, name);
  }
}

TEST(OverwrittenGradients, AreTheClearedOnesWhereWeightsStepInBackward) {
  RunConfig config = small_gpt();
  config.step_in_backward = true;
  expect_same(config, "step in backward");
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
                          .labels = local_integers(rank, batch.labels),
                          .scale = 1},
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

/// What is no longer moved: each product's sum, once to clear it and once to read it.
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
