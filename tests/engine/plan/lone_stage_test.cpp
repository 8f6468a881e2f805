#include "engine/plan/lone_stage.h"

#include <gmock/gmock.h>

#include "engine/plan/execute.h"
#include "kernels/support/error.h"
#include "tests/engine/plan/support.h"
#include "tests/engine/support.h"

/// Stages that run alone against the pipeline of all: put together, they take what it takes.
namespace frugal::engine {
namespace {

using ::testing::ElementsAre;
using testing::flush;
using testing::free_running;
using ::testing::HasSubstr;
using testing::planned_gpt;
using testing::two_buffered;

struct LoneCase {
  std::string name;
  ScheduleKind schedule;
  int t = 1, w = 1, d = 4, chunks = 1;
  int64_t layers = 8;
  Shard shard = Shard::none;
  Recompute recompute = Recompute::none;
  bool untied = false;
  double within = 0.001;  ///< what the time may be off by
};
void PrintTo(const LoneCase& c, std::ostream* out) { *out << c.name; }

RunConfig config_of(const LoneCase& c) {
  RunConfig run = planned_gpt(c.layers, 1024, 16);
  run.schedule = c.schedule;
  run.tensor_parallel = c.t;
  run.sequence_parallel = c.t > 1;
  run.data_parallel = c.w;
  run.pipeline_parallel = c.d;
  run.chunks = c.chunks;
  run.micro_batch = 2;
  run.microbatches = 16;
  run.shard = c.shard;
  run.recompute = c.recompute;
  run.model.tied = !c.untied;
  return run;
}

/// One rank of one stage, on one device of a virtual machine.
struct Lone {
  std::vector<StageSeconds> seconds;
  int64_t peak = 0;
};
Lone run_lone(const RunConfig& run, const OptimizerOptions& options, const Machine& machine,
              int stage, size_t batches) {
  const RunConfig config = lone_stage_of(run);
  const auto cluster = make_lone_virtual_cluster(config, machine, stage);
  LoneStage lone(*cluster, run, {.optimizer = options});
  const Batch empty(static_cast<size_t>(config.batch_microbatches()));
  Lone done{lone.run(std::vector<Batch>(batches, empty))};
  done.peak = cluster->rank(0).ledger.peak();
  return done;
}

class LoneStages : public ::testing::TestWithParam<LoneCase> {
 protected:
  const Machine machine_ = free_running();
  const RunConfig run_ = config_of(GetParam());
  const OptimizerOptions options_ = planned_optimizer(run_.schedule);

  /// The last but one of so many batches: a tied table's late step of one takes time in the next.
  static constexpr size_t batches_ = 6;
  StepResult settled() const {
    const auto cluster = make_virtual_cluster(run_, machine_);
    Trainer trainer(*cluster, run_, {.optimizer = options_});
    const Batch empty(static_cast<size_t>(run_.batch_microbatches()));
    return trainer.run(std::vector<Batch>(batches_, empty)).at(batches_ - 2);
  }
};

TEST_P(LoneStages, HoldWhatTheyHoldBesideAllOthers) {
  const Execution all = execute_plan(run_, options_, machine_);
  for (int stage = 0; stage < run_.pipeline_parallel; ++stage)
    EXPECT_EQ(run_lone(run_, options_, machine_, stage, Execution::batches).peak,
              all.memory[static_cast<size_t>(stage)])
        << "stage " << stage;
}

TEST_P(LoneStages, TakeTogetherWhatThePipelineTakes) {
  const StepResult all = settled();
  std::vector<StageSeconds> stages;
  for (const int stage : distinct_stages(run_)) {
    stages.push_back(run_lone(run_, options_, machine_, stage, batches_).seconds.at(batches_ - 2));
    EXPECT_GT(stages.back().step, 0);
    EXPECT_EQ(stages.back().collectives > 0, run_.tensor_parallel > 1 || run_.shard != Shard::none);
  }
  StagesTogether together(run_, options_, machine_);
  const StepParts parts = together.of(stages);
  EXPECT_NEAR(parts.seconds() / all.seconds, 1, GetParam().within);
  EXPECT_GT(parts.computation, 0);
  // Without a flush, messages and sums may all be hidden.
  if (run_.schedule.flushes) {
    EXPECT_GT(parts.communication, 0);
  }
  EXPECT_GE(parts.bubble, 0);
  EXPECT_NEAR(together.flops(stages) / all.flops, 1, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    All, LoneStages,
    ::testing::Values(
        LoneCase{"gpipe", ScheduleKind::gpipe}, LoneCase{"one_forward_one_backward", flush},
        LoneCase{"interleaved", ScheduleKind::interleaved, 1, 1, 4, 2, 16},
        LoneCase{"two_buffered", two_buffered},
        LoneCase{"two_buffered_untied", two_buffered, 1, 1, 4, 1, 8, Shard::none, Recompute::none,
                 true},
        LoneCase{"zero_bubble_h1", ScheduleKind::zero_bubble_h1},
        LoneCase{"zero_bubble_v", ScheduleKind::zero_bubble_v, 1, 1, 4, 2, 16},
        LoneCase{"tensor_parallel", flush, 8, 1, 4},
        LoneCase{"tensor_parallel_interleaved", ScheduleKind::interleaved, 8, 1, 4, 2, 16},
        LoneCase{"recompute", flush, 2, 1, 4, 1, 8, Shard::none, Recompute::full},
        LoneCase{"replicas", flush, 1, 2},
        // Sums of the first stage begin beside its last pass, which they slow.
        LoneCase{"sharded", flush, 1, 2, 4, 1, 8, Shard::optimizer, Recompute::none, false, 0.0015},
        LoneCase{"untied", flush, 1, 1, 4, 1, 8, Shard::none, Recompute::none, true}),
    ::testing::PrintToStringParamName());

TEST(LoneStage, AreDistinctByTheirPartsOfTheModel) {
  RunConfig run = config_of({"", flush});
  EXPECT_THAT(distinct_stages(run), ElementsAre(0, 1, 3)) << "first, middle, last";
  EXPECT_EQ(stage_like(run, 2), 1);
  run.pipeline_parallel = 2;
  EXPECT_THAT(distinct_stages(run), ElementsAre(0, 1));
  run.pipeline_parallel = 4;
  run.stage_layers = {1, 3, 2, 2};
  EXPECT_THAT(distinct_stages(run), ElementsAre(0, 1, 2, 3));
}

/// Passes take what they took, whatever the machine would.
TEST(LoneStage, PassesOfEachAreThoseThatWereMeasured) {
  RunConfig run = config_of({"", flush, 1, 1, 2});
  run.model.tied = false;
  const Machine machine = free_running();
  StagesTogether together(run, planned_optimizer(run.schedule), machine);
  const auto stage = [](double forward, double backward, double step) {
    return StageSeconds{.chunks = {{forward, backward, 0, 0}}, .step = step};
  };
  const StepParts p = together.of({stage(1, 2, 0.5), stage(2, 4, 1.5)});
  // The second stage always computes, but for the first microbatch's way to it and the last one's
  // back; its own step ends last, 1 beside the first one's last pass and step.
  const Machine& m = machine;
  const double message = CostModel(m).message(true, 512 * 2 * 1024 * 2);
  EXPECT_NEAR(p.computation + p.bubble, 1 + 16 * 6 + 2 + 0.5, 1e-9);
  EXPECT_NEAR(p.communication, 2 * message, 1e-9);
  EXPECT_EQ(together.flops({stage(1, 2, 0.5), stage(2, 4, 1.5)}), 0);
  EXPECT_THROW((void)together.of({stage(1, 2, 0.5)}), std::invalid_argument);
}

TEST(LoneStage, RunsOnTheProcessorWithFiniteNumbers) {
  RunConfig run = testing::small_gpt();
  run.model.layers = 4;
  run.pipeline_parallel = 4;
  run.tensor_parallel = 2;
  run.microbatches = 4;
  for (const int stage : distinct_stages(run)) {
    const auto cluster = make_lone_cpu_cluster(lone_stage_of(run), 1, free_running(), stage);
    EXPECT_FALSE(cluster->whole());
    LoneStage lone(*cluster, run, {});
    const Batch batch = random_batch(lone_stage_of(run), 0);
    const StageSeconds seconds = lone.run({batch}).front();
    EXPECT_GT(seconds.chunks.front()[static_cast<size_t>(ActionKind::forward)], 0);
    EXPECT_GT(seconds.chunks.front()[static_cast<size_t>(ActionKind::backward)], 0);
    EXPECT_GT(seconds.step, 0);
    // As much as that of all ranks.
    const auto all = make_cpu_cluster(run, 1);
    Trainer trainer(*all, run, {});
    (void)trainer.step(batch);
    EXPECT_EQ(cluster->rank(0).ledger.peak(), all->rank(stage * 2).ledger.peak());
  }
}

TEST(LoneStage, RefusesWhatHasNoTimeOfItsOwn) {
  RunConfig run = config_of({"", flush});
  EXPECT_EQ(why_not_lone_stages(run), "");
  run.offload = true;
  EXPECT_THAT(why_not_lone_stages(run), HasSubstr("offloaded"));
  run.offload = false;
  run.validate_steps = StepValidation::after;
  EXPECT_THAT(why_not_lone_stages(run), HasSubstr("validate steps before"));
  RunConfig together = config_of({"", ScheduleKind::dual_pipe_v, 2, 1, 4, 2, 16});
  EXPECT_THAT(why_not_lone_stages(together), HasSubstr("--overlap-passes off"));
  EXPECT_THROW((void)make_lone_virtual_cluster(run, free_running()), InputError);
  EXPECT_THROW((void)make_lone_virtual_cluster(config_of({"", flush}), free_running(), 4),
               InputError);
}

}  // namespace
}  // namespace frugal::engine
