#include "harness/place/gpu_state.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/place/environment.h"
#include "kernels/cuda/gpus.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Values are those of tests/nvml/nvml.cpp.
TEST(GpuState, IsWhatTheDriversLibrarySays) {
  const GpuStates states = gpu_states();
  EXPECT_EQ(states.why_unknown, "");
  EXPECT_EQ(states.driver, "580.00.00");
  ASSERT_EQ(states.gpus.size(), gpus().size());
  const GpuState& state = states.gpus.front();
  EXPECT_EQ(state.sm.current, 1755);
  EXPECT_EQ(state.sm.most, 1980);
  EXPECT_EQ(state.sm.application, std::nullopt);
  EXPECT_EQ(state.memory.current, 2619);
  EXPECT_EQ(state.power, 412.5);
  EXPECT_EQ(state.power_cap, 700);
  EXPECT_EQ(state.temperature, 41);
  EXPECT_THAT(*state.throttled, ElementsAre("power cap", "unknown (0x1000)"));
  EXPECT_EQ(state.ecc, true);
  EXPECT_EQ(state.mig, false);
  EXPECT_EQ(state.corrected_errors, 2);
  EXPECT_EQ(state.uncorrected_errors, 0);
  EXPECT_EQ(state.nvlinks, 18);
  EXPECT_EQ(state.active_nvlinks, 18);
  EXPECT_EQ(state.pcie_width, 16);
  EXPECT_EQ(state.numa_node, std::nullopt);  // the kernel has no such device
}

TEST(GpuState, IsInTheEnvironmentAtTheBeginningAndTheEndAndIdentifiesNothing) {
  const json begun = environment(DeviceKind::cuda)["gpu_state"];
  EXPECT_EQ(begun["driver"], "580.00.00");
  EXPECT_EQ(begun["begin"].size(), gpus().size());
  EXPECT_TRUE(begun["end"].is_null());
  const json all = json::parse(ended(environment(DeviceKind::cuda).dump()));
  EXPECT_EQ(all["gpu_state"]["end"], all["gpu_state"]["begin"]);
  EXPECT_THAT(all.dump(), Not(HasSubstr("GPU-")));
  EXPECT_THAT(all.dump(), Not(HasSubstr("ffff:")));
  EXPECT_FALSE(environment(DeviceKind::cpu).contains("gpu_state"));
  EXPECT_FALSE(environment(DeviceKind::simulated).contains("gpu_state"));
}

TEST(GpuState, SaysWhatIsBetweenTwoGpus) {
  GpuStates states;
  states.driver = "1";
  states.gpus.resize(2);
  states.peers = {{0, 1, "nvlink"}};
  const json text = to_json(states);
  EXPECT_EQ(text["peers"][0]["gpus"], json({0, 1}));
  EXPECT_EQ(text["peers"][0]["path"], "nvlink");
  EXPECT_TRUE(text["begin"][0]["temperature_celsius"].is_null());
}

}  // namespace
}  // namespace frugal::harness
