#include "harness/record/gpu_load.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/measure/gpu_watch.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;

constexpr const char* cap = "power cap";
constexpr const char* heat = "thermal slowdown by software";

/// One look a second from 0 to 9, at two GPUs. The first is at 1400 + 10 t MHz and has taken
/// 700 t J; the second at 1900 MHz says nothing of its energy.
std::vector<GpuMoments> looks() {
  std::vector<GpuMoments> all;
  for (int t = 0; t < 10; ++t) {
    GpuMoment first{.sm_clock = 1400 + 10 * t,
                    .memory_clock = 2619,
                    .power = 600.0 + t,
                    .energy = 1e6 + 700.0 * t,
                    .temperature = 70,
                    .throttled = {{cap}}};
    if (t >= 8) first.throttled = {{cap, heat}};
    GpuMoment second{.sm_clock = 1900,
                     .memory_clock = {},
                     .power = {},
                     .energy = {},
                     .temperature = 50,
                     .throttled = {}};
    all.push_back({static_cast<double>(t), {first, second}});
  }
  return all;
}

TEST(GpuLoad, IsOfTheLooksInTheTurns) {
  const GpuLoads loads = load_in(looks(), {{1.5, 3.5}, {7.9, 9.5}}, {0, 1});  // 2, 3, 8, 9
  ASSERT_EQ(loads.gpus.size(), 2U);
  const GpuLoad& first = loads.gpus[0];
  EXPECT_EQ(first.samples, 4);
  EXPECT_EQ(first.sm_clock, (GpuLoad::Range{1455, 1420, 1490}));
  EXPECT_EQ(first.memory_clock, (GpuLoad::Range{2619, 2619, 2619}));
  EXPECT_EQ(first.power, (GpuLoad::Range{605.5, 602, 609}));
  EXPECT_EQ(first.temperature, (GpuLoad::Range{70, 70, 70}));
  EXPECT_EQ(first.throttled, (std::map<std::string, double>{{cap, 1}, {heat, 0.5}}));
  EXPECT_EQ(loads.gpus[1].sm_clock, (GpuLoad::Range{1900, 1900, 1900}));
  EXPECT_FALSE(loads.gpus[1].power);
  EXPECT_TRUE(loads.gpus[1].throttled.empty());
  EXPECT_DOUBLE_EQ(loads.mean_clock().value(), (1455 + 1900) / 2.0);
  EXPECT_DOUBLE_EQ(load_in(looks(), {{2, 2}}, {0}).mean_clock().value(), 1420);
}

TEST(GpuLoad, SaysWhereNoLookFellInATurn) {
  const GpuLoads loads = load_in(looks(), {{1.2, 1.4}, {2.1, 2.2}}, {0});
  EXPECT_TRUE(loads.gpus.empty());
  EXPECT_THAT(loads.why_unknown, HasSubstr("20 ms apart, fell in the 0.3 s"));
  EXPECT_FALSE(loads.mean_clock());
}

TEST(GpuEnergy, IsBetweenTheCountersAroundAWindow) {
  EXPECT_DOUBLE_EQ(energy_in(looks(), {1.5, 3.25}, {0}).value(), 700 * 1.75);
  EXPECT_DOUBLE_EQ(energy_in(looks(), {2, 4}, {0}).value(), 1400);
  EXPECT_FALSE(energy_in(looks(), {2, 4}, {0, 1}));  // of the second it is not known
  EXPECT_FALSE(energy_in(looks(), {2, 2.4}, {0}));   // too short for a counter
  EXPECT_FALSE(energy_in(looks(), {-1, 4}, {0}));
  EXPECT_FALSE(energy_in(looks(), {8, 9.5}, {0}));
  EXPECT_FALSE(energy_in({}, {8, 9}, {0}));
}

TEST(GpuLoad, IsTheSameOutOfAFile) {
  for (const GpuLoads& loads :
       {load_in(looks(), {{1.5, 3.5}, {8, 9}}, {0, 1}), GpuLoads{{}, "no driver"}}) {
    const nlohmann::json json = to_json(loads);
    EXPECT_EQ(gpu_loads_from_json(JsonObject(json, "a file")), loads) << json.dump();
  }
}

}  // namespace
}  // namespace frugal::harness
