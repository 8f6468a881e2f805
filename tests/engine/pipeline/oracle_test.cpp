#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "tests/engine/support.h"
#include "tests/main/left_out.h"

/// Pipelines equal the serial run of the same batches: losses, and the weights after some steps.
/// The gradients of a tied table are summed in another order, and tensor parallelism sums in
/// another order too; the rest of a pipeline's arithmetic is the serial run's (recursion_test.cpp).
namespace frugal::engine {
namespace {

using testing::small_gpt;

struct Case {
  ScheduleKind schedule;
  int stages = 1;
  int tensor = 1;
  Recompute recompute = Recompute::none;
  int replicas = 1;
  bool sequence_parallel = false;
  DType type = DType::f32;
};

constexpr int steps = 3;

RunConfig serial_config(const Case& c) {
  RunConfig config = small_gpt();
  config.model.layers = 16;
  config.micro_batch = 1;
  config.microbatches = 8 * c.replicas;
  config.type = c.type;
  return config;
}

RunConfig parallel_config(const Case& c) {
  RunConfig config = serial_config(c);
  config.schedule = c.schedule;
  config.pipeline_parallel = c.stages;
  config.chunks = c.schedule.has_chunks ? 2 : 1;
  config.tensor_parallel = c.tensor;
  config.sequence_parallel = c.sequence_parallel;
  config.data_parallel = c.replicas;
  config.microbatches = 8;
  config.recompute = c.recompute;
  return config;
}

struct Outcome {
  std::vector<double> losses;
  double held_out = 0;
  HostTensors tensors;
};

std::vector<Batch> first_batches(const RunConfig& config, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(random_batch(config, i));
  return batches;
}

/// Trains by SGD: an update is its gradient, where Adam's would be the rounding of one that is
/// zero.
Outcome train(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 1, 60);
  Trainer trainer(
      *cluster, config,
      {.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.3}, .steps = steps});
  Outcome outcome;
  for (const Batch& batch : first_batches(config, steps))
    outcome.losses.push_back(trainer.step(batch).loss);
  // Not a multiple of anything that divides a pipeline.
  Batch held_out = random_batch(config, steps);
  held_out.resize(3);
  outcome.held_out = trainer.evaluate(held_out);
  outcome.tensors = trainer.snapshot(held_out.front());
  return outcome;
}

/// Run that a case is compared with; the cases of one process share it.
const Outcome& serial_outcome(const Case& c) {
  static std::map<std::pair<int, DType>, Outcome> known;
  const std::pair key(c.replicas, c.type);
  if (!known.contains(key)) known[key] = train(serial_config(c));
  return known[key];
}

class PipelineOracle : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineOracle, EqualsTheSerialRun) {
  const Case& c = GetParam();
  const double bound = c.type == DType::f64 ? 1e-12 : 1e-5;
  const Outcome& serial = serial_outcome(c);
  const Outcome parallel = train(parallel_config(c));
  for (size_t i = 0; i < serial.losses.size(); ++i)
    EXPECT_NEAR(parallel.losses[i] / serial.losses[i], 1, bound) << "step " << i;
  EXPECT_NEAR(parallel.held_out / serial.held_out, 1, bound);
  EXPECT_EQ(parallel.tensors.size(), serial.tensors.size());
  const auto worst = testing::worst_error(parallel.tensors, serial.tensors);
  EXPECT_LT(worst.value, bound) << worst.tensor;
}

void PrintTo(const Case& c, std::ostream* out) {
  std::string name =
      fmt::format("{}_p{}_t{}_w{}_{}{}_{}", name_of(c.schedule), c.stages, c.tensor, c.replicas,
                  name_of(c.recompute), c.sequence_parallel ? "_sp" : "", name_of(c.type));
  std::replace(name.begin(), name.end(), '-', '_');
  *out << name;
}

FRUGAL_LEFT_OUT(any, "All/PipelineOracle.*_f64", "float64 beside float32");
/// One of each technique; combinations draw the others.
INSTANTIATE_TEST_SUITE_P(All, PipelineOracle,
                         ::testing::Values(Case{ScheduleKind::gpipe, 4, 1, Recompute::selective},
                                           Case{ScheduleKind::one_forward_one_backward, 2, 2,
                                                Recompute::selective, 2, true},
                                           Case{ScheduleKind::interleaved, 4, 2, Recompute::full},
                                           Case{ScheduleKind::zero_bubble_h2, 4, 2, Recompute::none,
                                                2, true, DType::f64},
                                           Case{ScheduleKind::dual_pipe_v, 2, 2, Recompute::full, 2,
                                                true, DType::f64}),
                         ::testing::PrintToStringParamName());

/// Appendix C of korthikanti2022: what is kept whole changes nothing but what is computed again.
TEST(KeptMicrobatches, ComputeLessAndTheSame) {
  RunConfig config =
      parallel_config({ScheduleKind::one_forward_one_backward, 4, 1, Recompute::full});
  std::vector<double> flops;
  std::vector<std::vector<double>> losses;
  for (const int64_t kept : {0, 1, 4}) {
    config.kept_microbatches = kept;
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {});
    const StepResult result = trainer.step(random_batch(config, 0));
    flops.push_back(result.flops);
    losses.push_back({result.loss, result.gradient_norm});
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_LT(flops[1], flops[0]);
  EXPECT_LT(flops[2], flops[1]);
  config.recompute = Recompute::none;
  config.kept_microbatches = 0;
  const auto cluster = make_cpu_cluster(config, 1, 60);
  // No stage has more than four in flight.
  EXPECT_EQ(Trainer(*cluster, config, {}).step(random_batch(config, 0)).flops, flops[2]);
}

/// The ends of a pipeline sum their table's gradients while both go on: neither may need the other
/// to come to the same place.
TEST(TiedTables, AreSummedWhileBatchesGoOn) {
  for (const ScheduleKind& kind :
       {ScheduleKind::two_buffered, ScheduleKind::pipedream_vertical_sync})
    for (const int stages : {2, 4}) {
      RunConfig config = parallel_config({kind, stages});
      config.microbatches = 4;
      const auto cluster = make_cpu_cluster(config, 1, 20);
      Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}});
      for (const StepResult& result : trainer.run(first_batches(config, 6)))
        EXPECT_TRUE(std::isfinite(result.loss));
    }
}

/// 2BW on replicas and tensor-parallel ranks, and where clipping makes all stages wait: the same as
/// one pipeline alone, but for the order of sums.
TEST(TwoBuffered, ReplicasTensorRanksAndClippingChangeNothing) {
  const auto losses_of = [](int tensor, int replicas, double clip) {
    RunConfig config = parallel_config({ScheduleKind::two_buffered, 2});
    config.tensor_parallel = tensor;
    config.sequence_parallel = tensor > 1;
    config.data_parallel = replicas;
    config.microbatches = 4 / replicas;
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {.optimizer = {.clip = clip}, .steps = 6});
    std::vector<double> losses;
    for (const StepResult& result : trainer.run(first_batches(config, 6)))
      losses.push_back(result.loss);
    return losses;
  };
  const std::vector<double> alone = losses_of(1, 1, 0);
  EXPECT_EQ(losses_of(1, 1, 1e8), alone);
  for (const auto& [tensor, replicas] : {std::pair{1, 2}, {2, 1}, {2, 2}}) {
    const std::vector<double> losses = losses_of(tensor, replicas, 0);
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i] / alone[i], 1, 1e-5) << tensor << " " << replicas << " step " << i;
  }
}

TEST(KeptOutputs, ChangeNothingButMemory) {
  RunConfig config = parallel_config({ScheduleKind::gpipe, 2});
  std::vector<double> losses;
  std::vector<int64_t> peaks;
  for (const bool kept : {false, true}) {
    config.keep_outputs = kept;
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {});
    losses.push_back(trainer.step(random_batch(config, 0)).loss);
    peaks.push_back(cluster->rank(0).ledger.peak());
  }
  EXPECT_EQ(losses[0], losses[1]);
  // At the peak, in the first backward pass, its own output is not kept any more, and the one that
  // was sent last may still be on its way, kept or not.
  const ModelConfig& m = config.model;
  EXPECT_THAT((peaks[1] - peaks[0]) / (m.sequence * m.hidden * 4),
              ::testing::AnyOf(config.microbatches - 2, config.microbatches - 1));
}

}  // namespace
}  // namespace frugal::engine
