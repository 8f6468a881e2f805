// What records of a GPU say of its clock, power and energy: as tests/nvml/nvml.cpp has them.
#include <gmock/gmock.h>

#include "harness/measure/runner.h"
#include "tests/emulator/gpu.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr double watts = 412.5, mhz = 1755;

/// Computes nothing, which does not count here: the measured peak's products would take long.
class GpuLoadTest : public ::testing::Test {
 protected:
  GpuLoadTest() { emulator::gpu().computes = false; }
  ~GpuLoadTest() override { emulator::gpu().computes = true; }
  Records run(const std::vector<Case>& cases, const TimingPlan& timing) {
    RecordFile file(folder_ / "");
    Progress progress(cases.size());
    return Runner(file, progress, {.timing = timing, .command = "frugal test"})
        .run("paper/table", cases);
  }

 private:
  testing::Folder folder_;
};

Case on_gpu(const std::string& id, const Workload& workload) {
  Case c{.id = id, .config = testing::tiny(), .workload = workload, .on = "cuda"};
  c.config.type = DType::bf16;
  return c;
}

/// Blocks of half a second and more, after a quarter that is not kept.
TEST_F(GpuLoadTest, IsInEachRecordOfASteadyState) {
  const TimingPlan plan{.warm_up = 0,
                        .samples = 6,
                        .budget = 0,
                        .order_seed = 3,
                        .steady = true,
                        .block = 0.9,
                        .settling = 0.25};
  const Records records = run({on_gpu("a", workload::ModuleTime{})}, plan);
  for (const Record& r : records.all()) {
    ASSERT_EQ(r.status, Status::ok) << r.reason;
    EXPECT_EQ(r.options.at("turns"), "steady");
    EXPECT_EQ(r.order_seed, 3U);
    const GpuLoads& loads = r.gpu_load.value();
    ASSERT_EQ(loads.gpus.size(), 1U) << loads.why_unknown;
    const GpuLoad& load = loads.gpus[0];
    EXPECT_EQ(load.sm_clock, (GpuLoad::Range{mhz, mhz, mhz}));
    EXPECT_EQ(load.power, (GpuLoad::Range{watts, watts, watts}));
    EXPECT_EQ(load.temperature, (GpuLoad::Range{41, 41, 41}));
    EXPECT_THAT(load.throttled,
                UnorderedElementsAre(Pair("power cap", 1), Pair("unknown (0x1000)", 1)));
    // Six blocks of 0.65 s with a look every 20 ms, were the machine idle.
    EXPECT_GT(load.samples, 20);
    const std::vector<double>&forward = r.samples("forward_time"),
          &executions = r.samples("executions");
    EXPECT_EQ(forward.size(), 6U);
    EXPECT_EQ(executions.size(), 6U);
    for (size_t i = 0; i < 6; ++i) {
      // All that are kept fit into the block.
      EXPECT_GE(executions[i], 1);
      EXPECT_LT(executions[i] * (forward[i] + r.samples("backward_time")[i]), 0.9);
      // The energy of a token is that power in the time of an execution; the loop's own is in it.
      const double passes = forward[i] + r.samples("backward_time")[i];
      EXPECT_GE(r.samples("joules_per_token")[i] * 8, 0.99 * watts * passes);
      EXPECT_LE(r.samples("joules_per_token")[i] * 8 * executions[i], watts * 0.9);
    }
  }
}

/// Turns of single executions are shorter than a look.
TEST_F(GpuLoadTest, SaysWhyItIsNotKnownOfBursts) {
  const Records records = run({on_gpu("a", workload::ModuleMemory{})}, {});
  const Record& r = records.all().front();
  ASSERT_TRUE(r.gpu_load);
  EXPECT_TRUE(r.gpu_load->gpus.empty());
  EXPECT_NE(r.gpu_load->why_unknown, "");
  EXPECT_TRUE(r.samples("joules_per_token").empty());
  EXPECT_FALSE(r.options.count("turns"));
}

/// A training's looks are those of its steps, of every stage that ran. Without computing, a step
/// takes less than a look.
TEST_F(GpuLoadTest, IsInRecordsOfTrainingsAndOfLoneStages) {
  Case c = on_gpu("a", Training{.train = {.optimizer = {}, .steps = 300}});
  for (const int stages : {1, 2}) {
    c.config.pipeline_parallel = c.config.microbatches = stages;
    c.config.model.layers = 2;
    c.lone_rank = stages > 1 ? "h200-hgx" : "";
    const Records records = run({c}, {});
    const Record& r = records.all().front();
    ASSERT_EQ(r.status, Status::ok) << r.reason;
    EXPECT_EQ(r.lone_stages.has_value(), stages > 1);
    ASSERT_EQ(r.gpu_load.value().gpus.size(), 1U) << r.gpu_load->why_unknown;
    EXPECT_GT(r.gpu_load->gpus[0].samples, 0);
  }
}

TEST_F(GpuLoadTest, IsOfGpusAlone) {
  Case c = on_gpu("a", workload::ModuleMemory{});
  c.on = "cpu";
  EXPECT_FALSE(run({c}, {}).all().front().gpu_load);
}

TEST(MeanClock, ScalesThePeakThatIsLeft) {
  Machine machine = find_machine("h100-dgx", {});
  ASSERT_EQ(machine.peak_clock.value().value, 1.83e9);
  GpuLoad slow, fast;
  slow.sm_clock = GpuLoad::Range{1098, 900, 1300};
  fast.sm_clock = GpuLoad::Range{1464, 1400, 1500};
  Utilization u{2e15, {}, {0.35, ""}, {}, {0.42, ""}, {}};
  add_at_clock(u, {{slow, fast}, ""}, machine);  // 1281 MHz, 0.7 of 1830
  EXPECT_DOUBLE_EQ(u.at_clock->peak.value(), 1.4e15);
  EXPECT_DOUBLE_EQ(u.at_clock->mfu.value.value(), 0.5);
  EXPECT_DOUBLE_EQ(u.at_clock->hfu.value.value(), 0.6);
  add_at_clock(u, {{}, "no driver"}, machine);
  EXPECT_FALSE(u.at_clock->mfu.value);
  EXPECT_EQ(u.at_clock->hfu.reason, "no driver");
  machine.peak_clock.reset();
  add_at_clock(u, {{slow}, ""}, machine);
  EXPECT_EQ(u.at_clock->mfu.reason,
            "the machine h100-dgx does not say at which clock its peak is reached");
  Utilization unknown{{}, {}, {{}, "no data sheet"}, {}, {{}, "no data sheet"}, {}};
  add_at_clock(unknown, {{slow}, ""}, std::nullopt);
  EXPECT_EQ(unknown.at_clock->mfu.reason, "no data sheet");
}

}  // namespace
}  // namespace frugal::harness
