#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Weights that are updated within the backward pass, and checkpoints in the host's memory, are the
// same training in less memory.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_llama;
using testing::worst_error;

struct SteppedRun {
  std::vector<StepResult> steps;
  HostTensors end;
  int64_t peak_gradient = 0, peak_optimizer = 0, host_peak = 0;
};

/// Some steps without clipping.
SteppedRun stepped_run(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 2);
  TrainConfig train{.optimizer = {.learning_rate = 1e-2, .clip = 0}, .steps = 3};
  Trainer trainer(*cluster, config, train);
  cluster->run([](Rank& rank) {
    rank.ledger.reset_peaks();
    rank.host.reset_peaks();
  });
  SteppedRun run;
  for (int64_t step = 0; step < train.steps; ++step)
    run.steps.push_back(trainer.step(random_batch(config, step)));
  const Ledger& ledger = cluster->rank(0).ledger;
  run.peak_gradient = ledger.peak(Kind::gradient);
  run.peak_optimizer = ledger.peak(Kind::optimizer);
  run.host_peak = cluster->rank(0).host.peak();
  run.end = trainer.snapshot(random_batch(config, 0)[0]);
  return run;
}

/// Bitwise: the same operations on the same numbers. Only the norm is summed in other parts, which
/// are each summed in float32.
void expect_same(const SteppedRun& a, const SteppedRun& b) {
  const auto worst = worst_error(a.end, b.end);
  EXPECT_EQ(worst.value, 0) << worst.tensor;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss);
    EXPECT_NEAR(a.steps[i].gradient_norm / b.steps[i].gradient_norm, 1, 1e-6);
  }
}

/// Rounded to the weights' type, and summed over parts of the model. The combinations draw others.
TEST(StepInBackward, IsTheSameStep) {
  RunConfig pure = small_llama(), parts = small_gemma();
  pure.type = DType::bf16;
  pure.precision = Precision::pure;
  parts.tensor_parallel = parts.data_parallel = 2;
  parts.mlp_chunks = parts.head_chunks = 3;
  for (RunConfig c : {pure, parts}) {
    const SteppedRun after = stepped_run(c);
    c.step_in_backward = true;
    const SteppedRun within = stepped_run(c);
    expect_same(within, after);
    EXPECT_LT(within.peak_gradient, after.peak_gradient);
  }
}

/// Any schedule is refused or trains the same weights.
TEST(StepInBackward, SchedulesThatCannotAreRefused) {
  std::vector<std::string_view> trained;
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    RunConfig c = small_llama();
    c.schedule = kind;
    c.step_in_backward = true;
    try {
      c.validate();
    } catch (const InputError&) {
      continue;
    }
    trained.push_back(name_of(c.schedule));
    SCOPED_TRACE(trained.back());
    const SteppedRun within = stepped_run(c);
    c.step_in_backward = false;
    expect_same(within, stepped_run(c));
  }
  EXPECT_THAT(trained, ::testing::ElementsAre("inter-layer", "gpipe", "1f1b"));
}

TEST(StepInBackward, ARefusalNamesTheSchedulesThatCan) {
  RunConfig c = small_llama();
  c.step_in_backward = true;
  for (const ScheduleKind& kind : {ScheduleKind::two_buffered, ScheduleKind::zero_bubble_h1}) {
    c.schedule = kind;
    EXPECT_THAT([&] { c.validate(); },
                ::testing::ThrowsMessage<InputError>(::testing::AllOf(
                    ::testing::HasSubstr(fmt::format("the schedule is {}", name_of(kind))),
                    ::testing::HasSubstr("choose one of inter-layer, gpipe, 1f1b, or"))));
  }
}

/// A schedule of one's own may split what its kind does not.
TEST(StepInBackward, ASplitBackwardPassIsRefusedWhateverItsKind) {
  RunConfig c = small_llama();
  c.step_in_backward = true;
  Schedule split = make_schedule(ScheduleKind::zero_bubble_h1, {});
  split.kind = c.schedule;
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {.optimizer = {.clip = 0}});
  EXPECT_THROW(trainer.run({random_batch(c, 0)}, split), InputError);
}

FRUGAL_LEFT_OUT(thread, "StepInBackward.AGradientLivesUntilItsLayerHasPassed",
                "one rank: one thread");
TEST(StepInBackward, AGradientLivesUntilItsLayerHasPassed) {
  RunConfig c = small_llama();
  c.model.layers = 8;
  c.step_in_backward = true;
  const ModelConfig& m = c.model;
  const int64_t layer = m.hidden * (m.qkv_size() + m.query_size() + 3 * m.intermediate + 2);
  const int64_t table = m.vocabulary * m.hidden;
  EXPECT_EQ(stepped_run(c).peak_gradient, 4 * std::max(layer, table + m.hidden));
}

FRUGAL_LEFT_OUT(thread, "StepInBackward.ClippingNeedsAllGradients", "one rank: one thread");
TEST(StepInBackward, ClippingNeedsAllGradients) {
  RunConfig c = small_llama();
  c.step_in_backward = true;
  const auto cluster = make_cpu_cluster(c, 1);
  EXPECT_THROW(Trainer(*cluster, c, {.optimizer = {.clip = 1}}), InputError);
}

FRUGAL_LEFT_OUT(thread, "PurePrecision.GradientsAndStateHaveTheWeightsType",
                "one rank: one thread");
TEST(PurePrecision, GradientsAndStateHaveTheWeightsType) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  const SteppedRun mixed = stepped_run(c);
  c.precision = Precision::pure;
  const SteppedRun pure = stepped_run(c);
  EXPECT_EQ(pure.peak_gradient * 2, mixed.peak_gradient);
  EXPECT_EQ(pure.peak_optimizer * 3, mixed.peak_optimizer);  // two moments of 2 bytes; 3 of 4
}

/// Changes of the weights by some steps on one batch.
HostTensors changes_of(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 2);
  const TrainConfig train{.optimizer = {.learning_rate = 1e-2, .clip = 0}, .steps = 4};
  Trainer trainer(*cluster, config, train);
  HostTensors change;
  trainer.each_weight(
      [&](const std::string& name, const HostTensor& weight) { change[name] = weight; });
  const Batch batch = random_batch(config, 0);
  for (int64_t step = 0; step < train.steps; ++step) trainer.step(batch);
  trainer.each_weight([&](const std::string& name, const HostTensor& weight) {
    std::vector<double>& before = change.at(name).values;
    std::ranges::transform(weight.values, before, before.begin(), std::minus());
  });
  return change;
}

/// √(Σ (a − b)² / Σ b²) over all weights.
double relative_distance(const HostTensors& a, const HostTensors& b) {
  double difference = 0, all = 0;
  for (const auto& [name, tensor] : b)
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      difference += std::pow(a.at(name).values[i] - tensor.values[i], 2);
      all += std::pow(tensor.values[i], 2);
    }
  return std::sqrt(difference / all);
}

/// Rounding to 8 bits is all that is between them: a step changes weights by up to 0.01 and rounds
/// those near 0.02 by up to 2^−14, and norms' gains, which are few, by up to 2^−8.
TEST(PurePrecision, ChangesTheWeightsAsMixedDoes) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  const HostTensors mixed = changes_of(c);
  c.precision = Precision::pure;
  EXPECT_LT(relative_distance(changes_of(c), mixed), 0.03);
}

}  // namespace
}  // namespace frugal::engine
