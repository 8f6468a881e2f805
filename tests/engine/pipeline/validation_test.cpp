#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "kernels/support/error.h"
#include "tests/engine/support.h"

/// Stages that validate their steps after they were made equal to the bit the run whose stages
/// meet, whichever steps turn out to be wrong. Combinations compare both with the serial run.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::small_llama;

constexpr int late_steps = 3;

RunConfig serial_run(const RunConfig& model) {
  RunConfig run = model;
  run.model.layers = 8;
  run.model.hidden = 32;
  run.model.sequence = 16;
  run.micro_batch = 1;
  run.microbatches = 4;
  return run;
}

RunConfig in_stages(RunConfig run, const ScheduleKind& kind, StepValidation validation,
                    int stages = 4) {
  run.schedule = kind;
  run.pipeline_parallel = stages;
  if (kind.has_chunks) run.chunks = kind.chunks > 0 ? kind.chunks : 2;
  run.validate_steps = validation;
  return run;
}

TrainConfig clipped_at(double clip) {
  return {.optimizer = {.learning_rate = 0.05, .weight_decay = 0.01, .clip = clip},
          .steps = late_steps};
}

struct Validated {
  std::vector<StepResult> results;
  HostTensors end;
};

/// All steps in one go, so that batches follow each other.
Validated trained_in_one_go(const RunConfig& run, const TrainConfig& train) {
  const auto cluster = make_cpu_cluster(run, 1, 60);
  Trainer trainer(*cluster, run, train);
  std::vector<Batch> batches;
  for (int i = 0; i < late_steps; ++i) batches.push_back(random_batch(run, i));
  Validated all{trainer.run(batches), {}};
  all.end = trainer.snapshot(random_batch(run, late_steps)[0]);
  return all;
}

std::vector<double> norms_of(const Validated& all) {
  std::vector<double> norms;
  for (const StepResult& result : all.results) norms.push_back(result.gradient_norm);
  return norms;
}

/// Share of steps that are clipped.
enum class Clipped { never, sometimes, always, by_far };

/// Norm to clip at, amid those that there are. Where all are clipped narrowly, every stage but the
/// last goes on with what is wrong; where all are by far, the first stage alone has a norm that is
/// too large.
double clip_for(Clipped clipped, std::vector<double> norms) {
  std::ranges::sort(norms);
  switch (clipped) {
    case Clipped::never:
      return 2 * norms.back();
    case Clipped::sometimes:
      return (norms[0] + norms[1]) / 2;
    case Clipped::always:
      return 0.99 * norms.front();
    case Clipped::by_far:
      return 0.01 * norms.front();
  }
  return 0;
}

struct ValidationCase {
  ScheduleKind kind;
  Clipped clipped = Clipped::never;
  DType type = DType::f64;
  int stages = 4;
};

RunConfig serial_of_type(DType type) {
  RunConfig run = serial_run(small_gpt());
  run.type = type;
  return run;
}

double clip_of(const ValidationCase& c) {
  static std::map<DType, std::vector<double>> known;  // norms, which cases of a process share
  if (!known.contains(c.type))
    known[c.type] = norms_of(trained_in_one_go(serial_of_type(c.type), clipped_at(1e8)));
  return clip_for(c.clipped, known[c.type]);
}

class LateValidation : public ::testing::TestWithParam<ValidationCase> {};

/// Passes that are made again show in what was computed.
TEST_P(LateValidation, IsToTheBitTheRunWhoseStagesMeet) {
  const auto& [kind, clipped, type, stages] = GetParam();
  const RunConfig run = serial_of_type(type);
  const TrainConfig train = clipped_at(clip_of(GetParam()));
  const auto ended = [&](StepValidation validation) {
    return trained_in_one_go(in_stages(run, kind, validation, stages), train);
  };
  const Validated meeting = ended(StepValidation::before), late = ended(StepValidation::after);
  for (size_t i = 0; i < late_steps; ++i) {
    EXPECT_EQ(late.results[i].loss, meeting.results[i].loss);
    EXPECT_EQ(late.results[i].gradient_norm, meeting.results[i].gradient_norm);
  }
  EXPECT_EQ(testing::worst_error(late.end, meeting.end).value, 0);
  const double flops = late.results[0].flops / meeting.results[0].flops;
  if (clipped == Clipped::never) {
    EXPECT_EQ(flops, 1);
  }
  if (clipped == Clipped::always) {
    EXPECT_GT(flops, 1);
  }
}

std::vector<ValidationCase> validation_cases() {
  std::vector<ValidationCase> cases;
  for (const auto clipped :
       {Clipped::never, Clipped::sometimes, Clipped::always, Clipped::by_far}) {
    cases.push_back({ScheduleKind::one_forward_one_backward, clipped});
    cases.push_back({ScheduleKind::zero_bubble_v, clipped, DType::f32});
  }
  for (const ScheduleKind& kind : ScheduleKind::all())
    if (kind.flushes) cases.push_back({kind, Clipped::always, DType::f64, 2});
  return cases;
}

void PrintTo(const ValidationCase& c, std::ostream* out) {
  static constexpr const char* names[] = {"never", "sometimes", "always", "by_far"};
  std::string name = fmt::format("{}_{}_{}_p{}", name_of(c.kind),
                                 names[static_cast<size_t>(c.clipped)], name_of(c.type), c.stages);
  std::ranges::replace(name, '-', '_');
  *out << name;
}

INSTANTIATE_TEST_SUITE_P(All, LateValidation, ::testing::ValuesIn(validation_cases()),
                         ::testing::PrintToStringParamName());

/// Ranks that divide a model and its optimizer's state validate late, too.
TEST(LateValidationBeside, EqualsTheRunWhoseStagesMeet) {
  RunConfig run = serial_run(small_llama());
  run.type = DType::bf16;
  run.tensor_parallel = run.data_parallel = 2;
  run.sequence_parallel = run.offload_optimizer = true;
  run.shard = Shard::optimizer;
  const RunConfig meeting = in_stages(run, ScheduleKind::zero_bubble_h1, StepValidation::before, 2);
  const std::vector<double> norms = norms_of(trained_in_one_go(meeting, clipped_at(1e8)));
  for (const auto clipped : {Clipped::never, Clipped::always}) {
    const TrainConfig train = clipped_at(clip_for(clipped, norms));
    const auto late = trained_in_one_go(
        in_stages(run, ScheduleKind::zero_bubble_h1, StepValidation::after, 2), train);
    EXPECT_EQ(testing::worst_error(late.end, trained_in_one_go(meeting, train).end).value, 0);
  }
}

/// Weights that are their own masters: a rank has a second block of them; where they are not, it
/// has none.
TEST(LateValidationMemory, IsASecondBlockOfWeightsWithoutMasters) {
  for (const DType type : {DType::f32, DType::bf16}) {
    RunConfig run = serial_run(small_llama());
    run.type = type;
    // Few activations, so that the peak is in the step.
    run.microbatches = 1;
    run.model.sequence = 16;
    const TrainConfig train = clipped_at(1e8);
    const auto kind = ScheduleKind::one_forward_one_backward;
    const auto cluster = make_cpu_cluster(in_stages(run, kind, StepValidation::before, 2), 1, 60);
    const Trainer trainer(*cluster, cluster->rank(0).config, train);
    const int64_t weights = cluster->rank(0).ledger.current(Kind::parameter);
    const auto at_end = [&](StepValidation validation) {
      const RunConfig config = in_stages(run, kind, validation, 2);
      const auto its = make_cpu_cluster(config, 1, 60);
      Trainer its_trainer(*its, config, train);
      (void)its_trainer.run({random_batch(config, 0), random_batch(config, 1)});
      return its->rank(0).ledger.current(Kind::parameter);
    };
    EXPECT_EQ(at_end(StepValidation::before), weights);
    EXPECT_EQ(at_end(StepValidation::after), (type == DType::f32 ? 2 : 1) * weights);
  }
}

/// Activations kept for backward passes are given back before it is made once more.
TEST(LateValidationMemory, PassesThatAreMadeAgainTakeNoMore) {
  const RunConfig run = in_stages(serial_run(small_llama()), ScheduleKind::one_forward_one_backward,
                                  StepValidation::after);
  const auto peaks = [&](double clip) {
    const auto cluster = make_cpu_cluster(run, 1, 60);
    Trainer trainer(*cluster, run, clipped_at(clip));
    std::vector<double> seen;
    for (const StepResult& step : trainer.run({random_batch(run, 0), random_batch(run, 1)}))
      seen.push_back(step.gradient_norm);
    for (int i = 0; i < cluster->local_ranks(); ++i)
      seen.push_back(static_cast<double>(
          cluster->rank(i).ledger.peak_per_kind()[static_cast<size_t>(Kind::activation)]));
    return seen;
  };
  const std::vector<double> stood = peaks(1e8);
  const std::vector<double> again = peaks(0.99 * stood.front());
  EXPECT_EQ(again.front(), stood.front());
  EXPECT_NE(again[1], stood[1]) << "the second batch has the weights of a clipped step";
  for (size_t rank = 2; rank < stood.size(); ++rank) EXPECT_EQ(again[rank], stood[rank]);
}

TEST(LateValidationRun, EndsWhereGradientsAreNotFiniteAsStagesThatMeetDo) {
  std::vector<std::string> errors;
  for (const auto validation : {StepValidation::before, StepValidation::after}) {
    const RunConfig run =
        in_stages(serial_run(small_gpt()), ScheduleKind::zero_bubble_h1, validation);
    TrainConfig train = clipped_at(1);
    train.optimizer.learning_rate = 1e30;
    errors.push_back(
        kernels::message_of<WrongNumbers>([&] { (void)trained_in_one_go(run, train); }));
  }
  EXPECT_THAT(errors[0], ::testing::HasSubstr("the gradient's norm is"));
  EXPECT_EQ(errors[1], errors[0]);
}

}  // namespace
}  // namespace frugal::engine
