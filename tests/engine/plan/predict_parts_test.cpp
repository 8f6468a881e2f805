#include <gtest/gtest.h>

#include <map>

#include "engine/program/find_program.h"
#include "engine/train/trainer.h"
#include "kernels/virtual/device.h"
#include "tests/engine/plan/support.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

/// Parts of a prediction, against execution.
namespace frugal::engine {
namespace {

using testing::flush;
using testing::free_running;
using testing::planned_gpt;
using testing::two_buffered;

/// Four of each weight, a kernel each; of the two norms and four maps of a layer, and of a table.
TEST(Predict, AnUpdateHasTheCopiesOfVersions) {
  const Machine machine = find_machine("v100-p3-16xlarge");
  for (const ScheduleKind& kind : {two_buffered, flush}) {
    RunConfig run = testing::small_gpt();
    run.type = DType::bf16;
    run.pipeline_parallel = 2;
    run.microbatches = 4;
    run.schedule = kind;
    const auto update = [&](bool copies) {
      run.program = find_program(copies ? "version-copies" : "frugal");
      return testing::predicted(run, machine).stages[0].update;
    };
    const double more = update(true) - update(false);
    if (kind.delay > 0)
      EXPECT_GT(more, 4 * 13 * machine.kernel_latency);
    else
      EXPECT_EQ(more, 0);
  }
}

FRUGAL_LEFT_OUT(thread, "Predict.ATiedTablesSumIsOfItsGradients", "one thread");
/// Sums take, whatever gradients are stored as, what the ends of the pipeline are seen to take.
TEST(Predict, ATiedTablesSumIsOfItsGradients) {
  const Machine machine = find_machine("v100-p3-16xlarge");
  for (const Precision precision : {Precision::mixed, Precision::pure}) {
    RunConfig run = planned_gpt(4, 1024, 16);
    run.pipeline_parallel = run.microbatches = 2;
    run.precision = precision;
    const OptimizerOptions options = planned_optimizer(run.schedule);
    const auto cluster = make_virtual_cluster(run, machine);
    auto& device = dynamic_cast<VirtualDevice&>(cluster->rank(0).device);
    Trainer trainer(*cluster, run, {.optimizer = options});
    device.keep_log(true);
    (void)trainer.step(Batch(static_cast<size_t>(run.batch_microbatches())));
    double seconds = 0;
    for (const VirtualDevice::Interval& interval : device.log())
      if (interval.stream == streams::ends.name) seconds += interval.end - interval.begin;
    EXPECT_NEAR(testing::predicted(run, machine).part(Bound::all_reduce), seconds, 1e-9);
    EXPECT_GT(seconds, 0);
  }
}

TEST(Predict, ManyMicrobatchesFollowFromFewer) {
  const Machine machine = free_running();
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    if (!kind.flushes) continue;
    RunConfig run = planned_gpt(16, 1024, 16);
    run.schedule = kind;
    run.pipeline_parallel = 4;
    run.chunks = kind.has_chunks ? std::max(kind.chunks, 2) : 1;
    run.microbatches = 64;
    SCOPED_TRACE(name_of(kind));
    testing::expect_predicted(run, machine, 0.02);
  }
}

/// The time of a batch is what its parts are, and none is less than nothing.
TEST(Predict, PartsOfABatchAddUp) {
  const Machine machine = find_machine("h100-dgx");
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    if (!kind.flushes) continue;
    RunConfig run = planned_gpt(16, 1024, 16);
    run.schedule = kind;
    run.pipeline_parallel = 4;
    run.data_parallel = 4;
    run.chunks = kind.has_chunks ? std::max(kind.chunks, 2) : 1;
    run.microbatches = 8;
    const PartCosts costs(run, planned_optimizer(kind), machine);
    const Prediction prediction = predict(run, costs, Links(run, machine), machine);
    for (const double part : prediction.parts) EXPECT_GE(part, -1e-12) << name_of(kind);
    EXPECT_GT(prediction.part(Bound::all_reduce), 0) << name_of(kind);
    // Of zb-v's busiest stage, which has both ends of the model, that may be nothing.
    if (kind != ScheduleKind::zero_bubble_v) {
      EXPECT_GT(prediction.part(Bound::bubble), 0) << name_of(kind);
    }
    // Of the busiest stage: no less than a fair share of all passes.
    const PartCost model = costs.of({.layers = run.model.layers});
    EXPECT_GE(prediction.part(Bound::compute),
              static_cast<double>(run.microbatches) *
                  (model.forward.seconds + model.backward.seconds) / 4 * 0.99)
        << name_of(kind);
  }
}

/// A described pipeline of four stages, each on a node of its own, whose network is so slow that
/// messages take longer than passes.
Machine of_slow_network() {
  Machine machine = free_running();
  machine.devices_per_node = 1;
  machine.network_bandwidth /= 16;
  return machine;
}
RunConfig four_nodes(ScheduleKind schedule) {
  RunConfig run = planned_gpt(8, 1024, 16);
  run.model.tied = false;
  run.pipeline_parallel = 4;
  run.microbatches = 12;
  run.schedule = schedule;
  return run;
}

/// Messages of a round trip, there and back: what the stages are seen to send where nothing is
/// beside it.
TEST(Predict, MessagesAreThoseThatAreSentThereAndBack) {
  const Machine machine = of_slow_network();
  const RunConfig run = four_nodes(ScheduleKind::inter_layer);
  const OptimizerOptions options = planned_optimizer(run.schedule);
  const auto cluster = make_virtual_cluster(run, machine);
  Trainer trainer(*cluster, run, {.optimizer = options});
  const auto device = [&](int i) -> VirtualDevice& {
    return dynamic_cast<VirtualDevice&>(cluster->rank(i).device);
  };
  for (int i = 0; i < cluster->local_ranks(); ++i) device(i).keep_log(true);
  (void)trainer.step(Batch(static_cast<size_t>(run.batch_microbatches())));
  std::map<std::string_view, double> seconds;
  for (int i = 0; i < cluster->local_ranks(); ++i)
    for (const VirtualDevice::Interval& interval : device(i).log())
      seconds[interval.stream] += interval.end - interval.begin;
  const Prediction prediction = testing::predicted(run, machine);
  EXPECT_GT(seconds[streams::activations.name], 0);
  EXPECT_NEAR(seconds[streams::gradients.name], seconds[streams::activations.name], 1e-9);
  EXPECT_NEAR(prediction.part(Bound::messages),
              seconds[streams::activations.name] + seconds[streams::gradients.name], 1e-9);
}

TEST(Predict, ABatchTakesAsLongAsItsMessagesHoldItUp) {
  const Machine machine = of_slow_network();
  for (const ScheduleKind& schedule :
       {ScheduleKind::inter_layer, ScheduleKind::gpipe, flush, two_buffered}) {
    const RunConfig run = four_nodes(schedule);
    const Prediction prediction = testing::predicted(run, machine);
    EXPECT_GT(prediction.part(Bound::messages), prediction.seconds / 3);
    EXPECT_NEAR(prediction.seconds / testing::executed(run, machine).seconds, 1, 0.03)
        << name_of(schedule);
  }
}

}  // namespace
}  // namespace frugal::engine
