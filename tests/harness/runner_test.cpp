#include "harness/measure/runner.h"

#include <gmock/gmock.h>

#include "harness/cli/command_line.h"
#include "harness/measure/flops.h"
#include "harness/measure/guarded.h"
#include "harness/measure/interrupt.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"
#include "tests/kernels/cpu_levels.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr const char* machine = "virtual:a100-selene";

class RunnerTest : public ::testing::Test {
 protected:
  Records run(const std::vector<Case>& cases) {
    RecordFile file(folder_ / "");
    Progress progress(cases.size());
    Runner runner(file, progress,
                  {.timing = {.warm_up = 1, .samples = 10, .budget = 0}, .command = "frugal test"});
    Records records = runner.run("paper/table", cases);
    lines_ = file.records().size();
    return records;
  }

  testing::Folder folder_;
  size_t lines_ = 0;
};

/// On the processor in float64, whose measured peak is that of small products: it is measured once
/// more in every test.
Case layer(const std::string& id, const Workload& observed, const std::string& on) {
  Case c{.id = id, .config = testing::tiny(), .workload = observed, .on = on};
  if (on == "cpu") c.config.type = DType::f64;
  return c;
}

TEST_F(RunnerTest, TimesOnTheCpuInterleavedAndOnAVirtualClockOnce) {
  Case other = layer("b", workload::ModuleTime{}, "cpu");
  other.config.recompute = Recompute::full;
  const Records records = run({layer("a", workload::ModuleTime{}, "cpu"), other,
                               layer("a", workload::ModuleTime{}, machine)});
  ASSERT_EQ(records.all().size(), 3U);
  for (const Record& r : records.all()) EXPECT_EQ(r.status, Status::ok) << r.reason;
  EXPECT_EQ(records.all()[0].samples(metric::forward_time).size(), 10U);
  EXPECT_EQ(records.all()[1].samples(metric::backward_time).size(), 10U);
  EXPECT_LT(records.all()[1].started, records.all()[0].ended);  // not one after the other
  EXPECT_EQ(records.all()[0].options.at("threads"), "1");
  const Record& once = records.all()[2];
  ASSERT_EQ(once.samples(metric::forward_time).size(), 1U);
  const double seconds =
      once.samples(metric::forward_time)[0] + once.samples(metric::backward_time)[0];
  EXPECT_DOUBLE_EQ(*once.utilization->mfu_data_sheet.value,
                   once.flops->model / seconds / *once.utilization->data_sheet_peak);
  EXPECT_GT(*records.all()[0].utilization->mfu_measured.value, 0);
  EXPECT_FALSE(records.all()[0].utilization->mfu_data_sheet.value);
  EXPECT_GT(*records.all()[2].utilization->mfu_data_sheet.value, 0);
  EXPECT_FALSE(records.all()[2].utilization->mfu_measured.value);
  EXPECT_EQ(records.settings("paper/table").size(), 2U);
  EXPECT_EQ(records.all()[0].rounds, records.all()[1].rounds);
  EXPECT_FALSE(records.all()[0].rounds.empty());
  EXPECT_EQ(records.all()[2].rounds, "");
}

TEST_F(RunnerTest, RunsModulesOfALayerAlone) {
  std::vector<Case> cases;
  for (const Module module : {Module::mlp, Module::output_layer})
    for (const char* on : {"cpu", machine}) {
      Case& c = cases.emplace_back(layer(on, workload::ModuleTime{module}, on));
      c.config.model.mlp = MlpKind::swiglu;
      c.config.model.intermediate = 24;
    }
  const Records records = run(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Record& r = records.all()[i];
    ASSERT_EQ(r.status, Status::ok) << r.reason;
    const bool mlp = std::get<workload::ModuleTime>(cases[i].workload).module == Module::mlp;
    EXPECT_EQ(r.what, mlp ? "mlp_time" : "output_layer_time");
    // 8 tokens, forward and for two gradients: three matrices, or one.
    const double weights = mlp ? 3 * 16 * 24 : 32 * 16;
    EXPECT_EQ(r.flops->hardware, 6 * 8 * weights);
    EXPECT_EQ(r.flops->model, r.flops->hardware);
    EXPECT_EQ(r.memory->stages.at(0).peak, r.memory->peak_total);
    EXPECT_EQ(r.samples(metric::backward_time).size(), r.on == "cpu" ? 10U : 1U);
  }
  EXPECT_EQ(records.all()[0].rounds, records.all()[2].rounds);
}

TEST_F(RunnerTest, ALoneRankIsTimedWithOthersAndSaysThatItIsOne) {
  Case whole = layer("a", workload::ModuleTime{}, "cpu"), lone = whole;
  whole.config.tensor_parallel = lone.config.tensor_parallel = 2;
  lone.lone_rank = "h200-hgx";
  const Records records = run({whole, lone});
  const Record &real = records.all()[0], &modelled = records.all()[1];
  ASSERT_EQ(modelled.status, Status::ok) << modelled.reason;
  EXPECT_FALSE(real.modelled);
  EXPECT_EQ(modelled.modelled.value().machine, "h200-hgx");
  EXPECT_THAT(modelled.device, HasSubstr("one rank of 2"));
  EXPECT_EQ(modelled.rounds, real.rounds);
  EXPECT_EQ(records.settings("paper/table").size(), 2U);
  EXPECT_EQ(modelled.memory->after_forward, real.memory->after_forward);
  EXPECT_DOUBLE_EQ(modelled.flops->hardware, real.flops->hardware);
  EXPECT_EQ(modelled.samples(metric::forward_time).size(), 10U);
}

TEST_F(RunnerTest, ADeviceHoldsAtLeastWhatWasInUse) {
  const Records records =
      run({layer("a", workload::ModuleMemory{}, "cpu"), layer("b", workload::ModuleTime{}, "cpu"),
           layer("a", workload::ModuleMemory{}, machine)});
  for (const Record& r : records.all()) {
    if (r.on == "cpu")
      EXPECT_GE(r.memory->reserved.value(), r.memory->peak_total) << r.case_id;
    else
      EXPECT_FALSE(r.memory->reserved);
  }
}

TEST_F(RunnerTest, BadInputStopsAllAndNothingIsRecorded) {
  Case bad = layer("a", workload::ModuleTime{}, "cpu");
  bad.config.tensor_parallel = 3;
  const Case good = layer("b", workload::ModuleMemory{}, "cpu");
  EXPECT_THAT([&] { run({good, bad}); }, ThrowsMessage<InputError>(HasSubstr("divisible")));
  const CpuLevel nonsense("nonsense");
  EXPECT_THAT([&] { run({good}); }, ThrowsMessage<InputError>(HasSubstr("FRUGAL_SIMD=nonsense")));
  EXPECT_TRUE(RecordFile(folder_ / "").records().empty());
}

TEST_F(RunnerTest, ASkippedCaseIsRunWhereItCanBeRunLater) {
  Case c = layer("a", workload::ModuleMemory{}, machine);
  c.skip = "not here";
  EXPECT_EQ(run({c}).all().front().status, Status::skipped);
  run({c});
  EXPECT_EQ(lines_, 1U) << "it was skipped already";
  c.skip.clear();
  EXPECT_EQ(run({c}).all().front().status, Status::ok);
  EXPECT_EQ(lines_, 2U);
}

TEST_F(RunnerTest, RunsAWholeGroupAgainWhereOneIsMissing) {
  const Case a = layer("a", workload::ModuleTime{}, "cpu"),
             b = layer("b", workload::ModuleTime{}, "cpu");
  const std::string first = run({a}).all()[0].rounds;
  const Records both = run({a, b});
  EXPECT_EQ(lines_, 3U);
  EXPECT_NE(both.all()[0].rounds, first);
  EXPECT_EQ(both.all()[0].rounds, both.all()[1].rounds);
  EXPECT_EQ(run({a, b}).all()[0].rounds, both.all()[0].rounds);
  EXPECT_EQ(lines_, 3U);
}

TEST_F(RunnerTest, RunsAWholeGroupAgainWhereItsRoundsDiffer) {
  const Case a = layer("a", workload::ModuleTime{}, "cpu"),
             b = layer("b", workload::ModuleTime{}, "cpu");
  run({a});
  run({b});
  EXPECT_EQ(lines_, 2U);
  const Records both = run({a, b});
  EXPECT_EQ(lines_, 4U);
  EXPECT_EQ(both.all()[0].rounds, both.all()[1].rounds);
}

/// Cases that name this machine run on what is given instead of its file, others on their own.
TEST_F(RunnerTest, AnotherMachineOfTheSameNameAndNoFile) {
  RecordFile in_memory;
  Progress silent;
  const Machine slow = find_machine("a100-selene", {{"device.launch_overhead", 1e-3}});
  Runner runner(in_memory, silent, {.place = {.machine = slow}});
  const std::vector<Case> cases{layer("a", workload::ModuleTime{}, machine),
                                layer("b", workload::ModuleTime{}, "virtual:h200-hgx")};
  const Records records = runner.run("paper/table", cases), files = run(cases);
  const auto seconds = [](const Records& some, size_t i) {
    return some.all()[i].samples(metric::forward_time).front();
  };
  EXPECT_GT(seconds(records, 0), 10 * seconds(files, 0));
  EXPECT_EQ(seconds(records, 1), seconds(files, 1));
  EXPECT_THAT(records.all()[0].on, HasSubstr("virtual:a100-selene#"));
  EXPECT_EQ(in_memory.records().size(), 2U);
  EXPECT_EQ(in_memory.set_aside(), "");
}

TEST(Grouped, TimedCasesOfARealDeviceAndEveryOtherAlone) {
  const auto of = [](const Workload& observed, const char* on) { return layer("", observed, on); };
  constexpr workload::ModuleTime time;
  constexpr workload::ModuleMemory memory;
  using Positions = std::vector<size_t>;
  EXPECT_THAT(grouped({of(memory, "cpu"), of(time, "cpu"), of(time, machine), of(memory, "cpu"),
                       of(time, "cpu"), of(time, machine)}),
              ElementsAre(Positions{0}, Positions{1, 4}, Positions{2}, Positions{3}, Positions{5}));
}

TEST_F(RunnerTest, ExecutedFlopsAreThePapersWithoutRecomputation) {
  const Records records = run({layer("a", workload::ModuleMemory{}, machine)});
  const Record& r = records.all().front();
  EXPECT_DOUBLE_EQ(r.flops->hardware, module_flops(r.config.model, Module::layer, 1));
  EXPECT_DOUBLE_EQ(r.flops->model, r.flops->hardware);
  EXPECT_GT((*r.memory->after_forward)[static_cast<size_t>(Kind::activation)], 0);
}

/// Fused attention has 7 products where separate attention has 6, of visible pairs only.
TEST_F(RunnerTest, ExecutedFlopsOfFusedAttentionAreThoseOfVisiblePairs) {
  Case c = layer("a", workload::ModuleMemory{}, machine);
  c.config.attention = AttentionKind::fused;
  const Record r = run({c}).all().front();
  const ModelConfig& m = r.config.model;
  const auto h = static_cast<double>(m.hidden), s = static_cast<double>(m.sequence);
  EXPECT_DOUBLE_EQ(r.flops->model, module_flops(m, Module::layer, 1));
  EXPECT_DOUBLE_EQ(r.flops->hardware, 72 * s * h * h + 14 * h * s * (s + 1) / 2);
}

TEST_F(RunnerTest, DoesNotRunARecordedCaseAgain) {
  const Case c = layer("a", workload::ModuleMemory{}, machine);
  const std::string first = run({c}).all().front().started;
  EXPECT_EQ(run({c}).all().front().started, first);
  EXPECT_EQ(lines_, 1U);
  Case changed = c;
  changed.config.seed = 77;
  run({changed});
  EXPECT_EQ(lines_, 2U);
}

TEST_F(RunnerTest, RecordsSkippedAndOutOfMemoryWithAReason) {
  Case skipped = layer("s", workload::ModuleMemory{}, machine);
  skipped.skip = "not divisible";
  Case huge = layer("h", workload::ModuleMemory{}, machine);
  huge.config.model.hidden = 1 << 20;
  const Records records = run({skipped, huge});
  EXPECT_EQ(records.all()[0].status, Status::skipped);
  EXPECT_EQ(records.all()[0].reason, "not divisible");
  EXPECT_EQ(records.all()[1].status, Status::oom);
  EXPECT_THAT(records.all()[1].reason, HasSubstr("did not fit"));
  EXPECT_FALSE(records.all()[0].needed);
}

/// On the clock of a machine and on this one's: the same steps, products and blocks of memory.
TEST_F(RunnerTest, TrainsAWholeModelThroughItsSchedule) {
  Training training{.train = {.optimizer = {.clip = 0}, .steps = 3}};
  Case simulated = layer("t", training, machine);
  simulated.config.model.layers = simulated.config.pipeline_parallel = 2;
  simulated.config.microbatches = 2;
  simulated.config.schedule = ScheduleKind::two_buffered;
  Case real = simulated;
  real.on = "cpu";
  const Records records = run({simulated, real});
  const Record &ours = records.all()[0], &theirs = records.all()[1];
  ASSERT_EQ(ours.status, Status::ok) << ours.reason;
  ASSERT_EQ(theirs.status, Status::ok) << theirs.reason;
  EXPECT_EQ(ours.samples(metric::step_time).size(), 3U);
  EXPECT_EQ(theirs.samples(metric::step_time).size(), 2U) << "the first is not warm";
  EXPECT_TRUE(ours.losses.empty());
  EXPECT_EQ(theirs.losses.size(), 3U);
  EXPECT_DOUBLE_EQ(ours.flops->hardware, theirs.flops->hardware);
  EXPECT_GT(ours.flops->hardware, 0);
  ASSERT_EQ(ours.memory->stages.size(), 2U);
  for (const size_t stage : {0, 1})
    EXPECT_EQ(ours.memory->stages[stage].at_peak[static_cast<size_t>(Kind::parameter)],
              theirs.memory->stages[stage].at_peak[static_cast<size_t>(Kind::parameter)]);
  EXPECT_GT(*ours.utilization->mfu_data_sheet.value, 0);
  EXPECT_EQ(ours.options.at("steps"), "3");
  EXPECT_EQ(ours.options.at("clip"), "0");
  EXPECT_EQ(theirs.options.at("threads"), "1");
  Case another = simulated;
  training.train.steps = 4;
  another.workload = training;
  run({another});
  EXPECT_EQ(lines_, 3U) << "another number of steps is another case";
}

TEST_F(RunnerTest, WhatRunsOutOfMemoryIsFollowedBySmallerOnesUntilOneFits) {
  const auto sized = [](const char* id, int64_t hidden, std::vector<Case> smaller) {
    Case c = layer(id, workload::ModuleMemory{}, machine);
    c.config.model.hidden = hidden;
    c.smaller = std::move(smaller);
    return c;
  };
  const Case chain =
      sized("huge", 1 << 20,
            {sized("large", 1 << 19, {sized("fits", 32, {sized("is not needed", 16, {})})})});
  const auto ids = [](const Records& records) {
    std::vector<std::string> all;
    for (const Record& r : records.all()) all.push_back(r.case_id);
    return all;
  };
  const Case other = layer("other", workload::ModuleMemory{}, machine);
  EXPECT_THAT(ids(run({chain, other})), ElementsAre("huge", "other", "large", "fits"));
  EXPECT_EQ(lines_, 4U);
  EXPECT_EQ(run({chain}).all().back().status, Status::ok);
  EXPECT_EQ(lines_, 4U) << "all of them were recorded";
  EXPECT_THAT([&] { run({sized("a", 32, {sized("bad", 15, {})})}); },
              ThrowsMessage<InputError>(HasSubstr("divisible")));
  EXPECT_EQ(lines_, 4U);
}

/// How much is too much is what such a case is to find out.
TEST_F(RunnerTest, TheMemoryOfAStepIsCountedBeyondWhatTheMachineHas) {
  Case step = layer("s", workload::StepMemory{}, machine);
  step.config.model.layers = 4;
  step.config.model.hidden = 1 << 15;
  step.config.pipeline_parallel = 2;
  step.config.microbatches = 3;
  const Record record = run({step}).all().front();
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.options.count("memory"), 1U);
  EXPECT_TRUE(record.metrics.empty());
  const Memory& memory = record.memory.value();
  ASSERT_EQ(memory.stages.size(), 2U);
  EXPECT_GT(memory.peak_total, find_machine("a100-selene").memory_capacity);
  EXPECT_EQ(memory.peak_total, std::max(memory.stages[0].peak, memory.stages[1].peak));
  for (const StageMemory& stage : memory.stages) {
    const auto activations = stage.peak_per_kind[static_cast<size_t>(Kind::activation)];
    EXPECT_GE(activations, stage.at_peak[static_cast<size_t>(Kind::activation)]);
    EXPECT_GT(stage.peak_in_layers, 0);
    EXPECT_LE(stage.peak_in_layers, activations);
  }
  Case real = step;
  real.config = testing::tiny();
  real.on = "cpu";
  const Record there = run({real}).all().front();
  EXPECT_EQ(there.status, Status::ok) << there.reason;
  EXPECT_EQ(there.options.count("memory"), 0U) << "within the machine's";
}

/// Cases that are timed by turns are in memory together, and one that needs more may fit alone.
TEST_F(RunnerTest, OutOfMemoryNamesWhatElseWasInMemory) {
  Case huge = layer("h", workload::ModuleTime{}, "cpu");
  huge.config.model.hidden = 1 << 20;
  const auto small = [](const char* id) { return layer(id, workload::ModuleTime{}, "cpu"); };
  const Records records = run({small("a"), small("b"), huge, small("c")});
  EXPECT_EQ(records.all()[2].status, Status::oom);
  EXPECT_THAT(records.all()[2].reason,
              HasSubstr("beside the 2 other cases timed by turns with it"));
  EXPECT_EQ(records.all()[3].status, Status::ok);
  huge.id = "alone";
  EXPECT_THAT(run({huge}).all()[0].reason, Not(HasSubstr("by turns")));
}

TEST(RunGuarded, TurnsExceptionsIntoStatuses) {
  const auto status_of = [](auto exception) {
    Record record;
    run_guarded(record, [&] { throw exception; });
    EXPECT_FALSE(record.reason.empty());
    return record.status;
  };
  EXPECT_EQ(status_of(OutOfMemory("m", 1, 1, 1)), Status::oom);
  EXPECT_EQ(status_of(DeadlinePassed("d")), Status::timeout);
  EXPECT_EQ(status_of(PeerLost("p")), Status::peer_lost);
  EXPECT_EQ(status_of(WrongNumbers("w")), Status::failed);
  Record record;
  EXPECT_THROW(run_guarded(record, [] { throw Interrupted(); }), Interrupted);
  EXPECT_EQ(record.status, Status::interrupted);
  EXPECT_THAT(record.reason, HasSubstr("from its start"));
  EXPECT_THROW(run_guarded(record, [] { throw InputError("i"); }), InputError);
}

TEST(ExitOf, IsTheDesignsForEveryStatus) {
  EXPECT_EQ(static_cast<int>(exit_of(Status::oom)), 3);
  EXPECT_EQ(static_cast<int>(exit_of(Status::timeout)), 4);
  EXPECT_EQ(static_cast<int>(exit_of(Status::peer_lost)), 5);
  EXPECT_EQ(static_cast<int>(exit_of(Status::failed)), 6);
  EXPECT_EQ(static_cast<int>(exit_of(Status::interrupted)), 130);
}

class Named : public Artifact {
 public:
  explicit Named(std::string id) : id_(std::move(id)) {}
  std::string id() const override { return id_; }
  std::string title() const override { return ""; }
  std::vector<Case> cases(const Selection&) const override { return {}; }
  std::vector<Cell> cells(const Records&) const override { return {}; }
  std::vector<Claim> claims(const Records&) const override { return {}; }

 private:
  std::string id_;
};

TEST(SelectArtifacts, ByIdGlobAndPaperInTheListsOrder) {
  const Named a("one2022/table1"), b("one2022/figure1"), c("two2021/table1");
  const Artifacts all{&a, &b, &c};
  EXPECT_THAT(select_artifacts(all, {}), ElementsAre(&a, &b, &c));
  EXPECT_THAT(select_artifacts(all, {"two2021/table1", "one2022/table1"}), ElementsAre(&a, &c));
  EXPECT_THAT(select_artifacts(all, {"one2022"}), ElementsAre(&a, &b));
  EXPECT_THAT(select_artifacts(all, {"*/table?"}), ElementsAre(&a, &c));
  EXPECT_THAT(
      [&] {
        select_artifacts(all, {"one2022/table1", "two2021/tabel1"});
      },
      ThrowsMessage<InputError>(HasSubstr("two2021/table1")));
}

}  // namespace
}  // namespace frugal::harness
