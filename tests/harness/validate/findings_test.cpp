#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/validate/disturbance.h"
#include "harness/validate/expectations.h"
#include "harness/validate/groups/gpus.h"
#include "harness/validate/groups/ranks.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Seconds of ranks in rounds, in which all are slower and faster together.
std::vector<std::vector<double>> simulated_ranks(const std::vector<double>& slower, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> together(1, 2), own(1, 1.1);
  std::vector<std::vector<double>> ranks(slower.size());
  for (int round = 0; round < 40; ++round) {
    const double all = together(random);
    for (size_t rank = 0; rank < slower.size(); ++rank)
      ranks[rank].push_back(1e-3 * slower[rank] * all * own(random));
  }
  return ranks;
}

TEST(SlowRank, IsFoundAndNoOther) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    for (const size_t count : {2U, 3U, 8U}) {
      std::vector<double> slower(count, 1);
      const auto sound = simulated_ranks(slower, seed);
      slower[1] = 1.2;
      const auto faulty = simulated_ranks(slower, seed);
      for (size_t rank = 0; rank < count; ++rank) {
        EXPECT_FALSE(is_slower_rank(slower_than_others(sound, rank))) << count << " " << seed;
        EXPECT_EQ(is_slower_rank(slower_than_others(faulty, rank)), rank == 1) << count << seed;
      }
    }
}

TEST(SlowRank, IsByHowMuchItIs) {
  const std::vector<std::vector<double>> ranks = {
      std::vector<double>(10, 2), std::vector<double>(10, 2.4), std::vector<double>(10, 2)};
  EXPECT_NEAR(slower_than_others(ranks, 1).value, 0.2, 1e-12);
  EXPECT_NEAR(slower_than_others(ranks, 0).value, 2 / 2.2 - 1, 1e-12);
}

GpuStates sound_gpus() {
  GpuState state;
  state.throttled = {{"power cap"}};
  state.power_cap = state.default_power_cap = 700;
  state.uncorrected_errors = 0;
  state.mig = false;
  state.pcie_width = state.most_pcie_width = 16;
  state.nvlinks = state.active_nvlinks = 18;
  GpuStates states;
  states.gpus = {state, state};
  return states;
}

/// At their power cap for a while.
GpuLoads quiet_gpus() {
  GpuLoad load;
  load.samples = 50;
  load.throttled = {{"power cap", 0.82}};
  return {.gpus = {load, load}, .why_unknown = ""};
}

std::vector<std::string> failed_of(const GpuStates& after) {
  std::vector<std::string> names;
  for (const Finding& finding : findings_of_gpus(sound_gpus(), quiet_gpus(), after))
    if (finding.outcome == Finding::Outcome::failed)
      names.push_back(finding.name + ": " + finding.reason);
  return names;
}

TEST(GpusGroup, PassesWhatIsSound) {
  EXPECT_THAT(failed_of(sound_gpus()), ::testing::IsEmpty());
  EXPECT_EQ(findings_of_gpus(sound_gpus(), quiet_gpus(), sound_gpus()).size(), 12U);
}

TEST(GpusGroup, NamesTheGpuAndWhatHoldsItBack) {
  const std::pair<std::function<void(GpuState&)>, const char*> faults[] = {
      {[](GpuState& s) { s.throttled = {{"thermal slowdown by hardware"}}; },
       "gpu 1/throttling: thermal slowdown by hardware"},
      {[](GpuState& s) { s.power_cap = 500; }, "gpu 1/power cap: capped at 500 W of 700 W"},
      {[](GpuState& s) { s.uncorrected_errors = 3; },
       "gpu 1/memory errors: 3 uncorrected since the driver was loaded"},
      {[](GpuState& s) { s.mig = true; }, "gpu 1/mig: MIG is on: a process has a part of the GPU"},
      {[](GpuState& s) { s.pcie_width = 8; }, "gpu 1/pcie: only 8 of 16 PCIe lanes"},
      {[](GpuState& s) { s.active_nvlinks = 17; }, "gpu 1/nvlink: only 17 of 18 NVLinks active"}};
  for (const auto& [fault, named] : faults) {
    GpuStates after = sound_gpus();
    fault(after.gpus[1]);
    EXPECT_THAT(failed_of(after), ElementsAre(named));
  }
}

/// Neither before nor after the watch was it too warm.
TEST(GpusGroup, SeesWhatHoldsAGpuBackMeanwhile) {
  GpuLoads meanwhile = quiet_gpus();
  meanwhile.gpus[1].throttled["thermal slowdown by software"] = 0.166;
  std::vector<std::string> seen, failed;
  for (const Finding& finding : findings_of_gpus(sound_gpus(), meanwhile, sound_gpus())) {
    if (finding.name.find("throttling") == finding.name.npos) continue;
    seen.push_back(finding.seen);
    if (finding.outcome == Finding::Outcome::failed) failed.push_back(finding.name);
  }
  EXPECT_THAT(seen, ElementsAre("before: power cap; meanwhile: power cap 82 %; after: power cap",
                                "before: power cap; meanwhile: power cap 82 %, thermal slowdown by "
                                "software 17 %; after: power cap"));
  EXPECT_THAT(failed, ElementsAre("gpu 1/throttling"));
}

TEST(GpusGroup, WhatIsNotKnownIsSkipped) {
  GpuStates unknown;
  unknown.why_unknown = "libnvidia-ml.so.1 is not there";
  const auto findings = findings_of_gpus(unknown, {}, unknown);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].outcome, Finding::Outcome::skipped);
  EXPECT_THAT(findings[0].reason, HasSubstr("libnvidia-ml.so.1"));
}

TEST(Disturbance, IsUnseenInAGuestOfAHypervisor) {
  EXPECT_TRUE(is_guest("flags\t\t: fpu cx16 hypervisor lahf_lm"));
  EXPECT_FALSE(is_guest("flags\t\t: fpu cx16 lahf_lm"));
  EXPECT_FALSE(is_guest("flags\t\t: hypervisors"));
}

TEST(Disturbance, IsWhatOthersHadOfAllProcessors) {
  ProcessorTimes then = parse_processor_times("cpu  100 0 50 800 50 0 0 0 0 0"),
                 now = parse_processor_times("cpu  300 0 150 1150 100 0 0 100 0 0");
  ASSERT_TRUE(now.known);
  then.own = 10;
  now.own = 190;
  const Disturbance seen = now.since(then);  // 800 ticks, 300 of them busy, 180 its own
  EXPECT_DOUBLE_EQ(seen.others, 0.15);
  EXPECT_DOUBLE_EQ(seen.steal, 0.125);
  EXPECT_TRUE(seen.heavy());
  EXPECT_FALSE(parse_processor_times("intr 1 2").known);
  EXPECT_FALSE(ProcessorTimes().since(then).known);
}

TEST(Reference, IsReadFromEachFileThatHasOne) {
  const testing::Folder folder;
  std::ofstream(folder / "mine.json")
      << R"({"schema": "frugal.validation-reference/1", "on": "cpu", "device": "d",
            "values": {"rank/0": {"what": "w", "unit": "s", "value": 0.5}}, "provenance": {}})";
  const ReferenceMachine mine = read_reference(folder / "mine.json");
  EXPECT_EQ(mine.device, "d");
  EXPECT_EQ(mine.values.at("rank/0"), 0.5);
  EXPECT_EQ(mine.source, "the reference mine.json");
  const std::string peak =
      R"({"schema": "frugal.peak/1", "device": "g", "measured_peak": {"bf16": {"flops_per_second": 7e14}},
          "copy": {"bytes_per_second": 2e12}, "launch": {"each": {"seconds": 1e-6}}})";
  std::ofstream(folder / "peak.json") << peak;
  std::ofstream(folder / "machine.json")
      << R"({"schema": "frugal.measured-machine/1", "samples": )" << peak << "}";
  for (const char* name : {"peak.json", "machine.json"}) {
    const ReferenceMachine machine = read_reference(folder / name);
    EXPECT_EQ(machine.device, "g") << name;
    EXPECT_EQ(machine.values.at("flops_bf16"), 7e14);
    EXPECT_EQ(machine.values.at("memory_bandwidth"), 2e12);
    EXPECT_EQ(machine.values.at("operation_time"), 1e-6);
  }
  std::ofstream(folder / "other.json") << R"({"schema": "frugal.record/1"})";
  EXPECT_THAT([&] { read_reference(folder / "other.json"); },
              ThrowsMessage<InputError>(HasSubstr("frugal.validation-reference/1")));
}

TEST(Expectations, AreOfTheSameDeviceAlone) {
  const auto target = make_target({.on = "cpu", .threads = 1});
  EXPECT_THAT(
      [&] {
        Expectations(*target, {{"the reference a.json", "another device", {}}});
      },
      ThrowsMessage<InputError>(HasSubstr("another device")));
  const Expectations same(*target, {{"the reference a.json", target->device(), {{"clock", 1e9}}}});
  ASSERT_EQ(same.of("clock").size(), 1U);
  EXPECT_EQ(same.of("clock")[0].value, 1e9);
  EXPECT_EQ(same.of("clock")[0].source, "the reference a.json");
  EXPECT_TRUE(same.of("flops_f32").empty());
  const auto described = make_target({.on = "cpu", .threads = 1, .hardware = "h100-dgx"});
  const auto sheet = Expectations(*described, {}).of("memory_bandwidth");
  ASSERT_EQ(sheet.size(), 1U);
  EXPECT_DOUBLE_EQ(sheet[0].value, 3.35e12 * 0.84);
  EXPECT_EQ(sheet[0].source, "the data sheet h100-dgx");
  const Machine h100 = find_machine("h100-dgx");
  EXPECT_DOUBLE_EQ(Expectations(*described, {}).of("collective/all-reduce")[0].value,
                   450e9 * h100.link_fraction);
  EXPECT_DOUBLE_EQ(Expectations(*described, {}).of("flops_f32")[0].value,
                   66.9e12 * h100.gemm_fraction);
}

}  // namespace
}  // namespace frugal::harness
