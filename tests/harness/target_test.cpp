#include "harness/place/target.h"

#include <gmock/gmock.h>

#include "engine/comm/nccl/nccl.h"
#include "harness/peaks/utilization.h"
#include "harness/place/gpu_selection.h"
#include "harness/place/machine_label.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/source_dir.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::ThrowsMessage;

class MachineFile : public ::testing::Test {
 protected:
  /// The target of a copy of the papers' machine in a file.
  template <class Change>
  std::unique_ptr<Target> copy(const Change& change) const {
    json machine = json::parse(testing::read(testing::source_dir() + "/hardware/a100-selene.json"));
    change(machine);
    std::ofstream(folder_ / "machine.json") << machine.dump();
    return make_target({.on = "virtual", .hardware = folder_ / "machine.json"});
  }

  testing::Folder folder_;
  const std::unique_ptr<Target> own_ = make_target({.on = "virtual"});
};

TEST_F(MachineFile, WithTheValuesOfOursIsOurs) {
  const auto same = copy([](json& m) { m["device"]["flops_bf16"]["source"] = "another"; });
  EXPECT_EQ(own_->on(), "virtual:a100-selene");
  EXPECT_EQ(same->on(), own_->on());
  EXPECT_EQ(same->machine_hash(), own_->machine_hash());
}

TEST_F(MachineFile, WithOtherValuesIsNotCalledLikeOurs) {
  const auto peak = copy([](json& m) { m["device"]["flops_bf16"]["value"] = 1e14; });
  EXPECT_THAT(peak->on(), MatchesRegex("virtual:a100-selene#[0-9a-f]{8}"));
  const auto tiles = copy([](json& m) { m["device"]["tiles"]["value"] = {{64, 64}}; });
  EXPECT_THAT(tiles->on(), MatchesRegex("virtual:a100-selene#[0-9a-f]{8}"));
  const auto named = copy([](json& m) { m["name"] = "mine"; });
  EXPECT_THAT(named->on(), MatchesRegex("virtual:mine#[0-9a-f]{8}"));
  EXPECT_NE(peak->on(), tiles->on());
  EXPECT_NE(peak->machine_hash(), own_->machine_hash());
}

TEST(Target, SaysWhatIsCalibrated) {
  for (const char* name :
       {"a100-80gb", "a100-selene", "b200-dgx", "h100-dgx", "h200-hgx", "v100-p3-16xlarge"}) {
    const Machine machine = find_machine(name);
    EXPECT_EQ(make_target({.on = std::string("virtual:") + name})->device(),
              machine.description + "; " + machine.calibration);
  }
}

TEST(MachineText, IsAFileOfTheSameMachine) {
  for (const std::string& name : machine_names()) {
    const Machine machine = find_machine(name);
    const Machine again = parse_machine(file_of(machine), "again");
    EXPECT_EQ(hash_of_values(again), hash_of_values(machine)) << name;
    EXPECT_EQ(in_words(again), in_words(machine)) << name;
    EXPECT_EQ(again.device_names, machine.device_names) << name;
    EXPECT_TRUE(is_known(again)) << name;
  }
}

TEST(MachineText, HasOperationsThatWereMeasured) {
  const Machine machine =
      find_machine(testing::source_dir() + "/tests/fuzz/corpus/machine/with-base.json");
  ASSERT_TRUE(was_measured(machine));
  EXPECT_EQ(hash_of_values(parse_machine(file_of(machine), "again")), hash_of_values(machine));
  EXPECT_FALSE(is_known(machine));
}

/// Records of these machines are kept in results/: calibrated or not, and whatever they take of
/// others, their values are the same.
TEST(Target, HasTheHashOfTheMachinesValuesOnly) {
  for (const auto& [name, hash] : {std::pair{"a100-selene", "99c4e946ff36f5a7"},
                                   {"a100-80gb", "d35eb9163be1d80e"},
                                   {"h100-dgx", "43c338e9865a1c80"},
                                   {"h200-hgx", "0d96ef62c23a6d0e"},
                                   {"b200-dgx", "0dbaa5e2b6721f5a"},
                                   {"v100-p3-16xlarge", "dc8cc2d4c160ded2"}})
    EXPECT_EQ(make_target({.on = std::string("virtual:") + name})->machine_hash(), hash) << name;
}

TEST(Target, HasTheHashOfADataSheetOnly) {
  EXPECT_EQ(make_target({.on = "cpu"})->machine_hash(), "");
  EXPECT_EQ(make_target({.on = "cpu", .hardware = "a100-selene"})->machine_hash(),
            make_target({.on = "virtual"})->machine_hash());
  EXPECT_EQ(make_target({.on = "cpu", .hardware = "a100-selene"})->on(), "cpu");
}

TargetOptions lone(const std::string& on) {
  return {.on = on, .threads = 2, .lone_rank = "h200-hgx"};
}

RunConfig parallel(int ranks) {
  RunConfig config = testing::tiny();
  config.tensor_parallel = ranks;
  return config;
}

TEST(LoneRank, IsNamedWithTheMachineThatItsCollectivesAreChargedTo) {
  const auto place = make_target(lone("cpu"));
  const Target& target = *place;
  const auto threads = make_target({.on = "cpu", .threads = 2});
  const Target& whole = *threads;
  EXPECT_EQ(target.on(), "cpu");
  EXPECT_EQ(target.device(parallel(2)),
            whole.device() + "; one rank of 2; communication modelled on h200-hgx (" +
                find_machine("h200-hgx").calibration + ")");
  ASSERT_TRUE(target.modelled());
  EXPECT_EQ(target.modelled()->machine, "h200-hgx");
  EXPECT_EQ(target.modelled()->hash, make_target({.on = "virtual:h200-hgx"})->machine_hash());
  EXPECT_EQ(target.machine_hash(), "");  // it is no data sheet
  EXPECT_FALSE(whole.modelled());
  EXPECT_EQ(whole.device(parallel(2)), whole.device());
}

TEST(LoneRank, OfAVirtualMachineHasItsOwnLinks) {
  EXPECT_THAT([] { make_target(lone("virtual")); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("--lone-rank is \"h200-hgx\""),
                                              HasSubstr("--lone-rank a100-selene"))));
  const auto place = make_target(lone("virtual:h200-hgx"));
  EXPECT_EQ(place->modelled()->hash, place->machine_hash());
  EXPECT_EQ(place->cluster(parallel(2))->local_ranks(), 1);
  EXPECT_THROW(make_target({.on = "cpu", .lone_rank = "h300"}), InputError);
}

TEST(LoneRank, RunsAStageWithoutItsNeighboursWhereThereAreLinks) {
  RunConfig config = parallel(2);
  config.pipeline_parallel = 2;
  config.model.layers = 2;
  EXPECT_EQ(make_target(lone("cpu"))->cluster_of_stage(config, 1)->rank(0).stage(), 1);
  EXPECT_THROW((void)make_target(lone("cpu"))->cluster(config), InputError);
  EXPECT_THROW((void)make_target({.on = "cpu"})->cluster_of_stage(config, 1), std::logic_error);
  config.offload = true;
  EXPECT_THAT(make_target(lone("cpu"))->why_not(config), HasSubstr("offloaded"));
}

/// Threads share a processor; ranks that are absent would each have one like it.
TEST(LoneRank, IsOneOfAsManyDevicesAsRanks) {
  TargetOptions options = lone("cpu");
  options.hardware = "a100-selene";
  EXPECT_DOUBLE_EQ(*PeakRates(*make_target(options)).data_sheet(parallel(2)), 2 * 19.5e12);
  EXPECT_DOUBLE_EQ(*PeakRates(*make_target({.on = "cpu", .threads = 2, .hardware = "a100-selene"}))
                        .data_sheet(parallel(2)),
                   19.5e12);
  EXPECT_DOUBLE_EQ(
      *PeakRates(*make_target({.on = "virtual", .threads = 2})).data_sheet(parallel(2)),
      2 * 19.5e12);
}

TEST(Gpus, InWords) {
  const Gpu gpu{.name = "NVIDIA H200",
                .major = 9,
                .minor = 0,
                .memory = 150'000'000'000,
                .multiprocessors = 132,
                .driver = 13000,
                .runtime = 12080};
  EXPECT_EQ(
      describe(gpu),
      "NVIDIA H200, compute capability 9.0, 139.7 GiB, driver for CUDA up to 13.0, CUDA 12.8");
  EXPECT_EQ(to_json(gpu)["compute_capability"], "9.0");
  EXPECT_EQ(to_json(gpu)["runtime_cuda"], "12.8");
}

TEST(Gpus, ChargeLoneRanksToTheirOwnMachineOrAreSkipped) {
  const auto selected = [](const char* name) { return gpu_selection({{.name = name}}, true); };
  EXPECT_EQ(selected("NVIDIA H200").machine, "h200-hgx");
  const GpuSelection unknown = selected("a GPU that nobody knows");
  EXPECT_EQ(unknown.lone_rank(parallel(2)), "");
  EXPECT_THAT(unknown.skip(parallel(2)), AllOf(HasSubstr("no file of hardware/ names this GPU"),
                                               HasSubstr("nobody knows"), HasSubstr("2 GPUs")));
  EXPECT_EQ(unknown.skip(parallel(1)), "");
  const GpuSelection one = selected("NVIDIA H200");
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.lone_rank(parallel(2)), "h200-hgx");
  EXPECT_EQ(one.lone_rank(parallel(1)), "");
  EXPECT_EQ(one.skip(parallel(2)), "");
  // Ranks on several GPUs need NCCL; without it each case runs one.
  const Gpu gpu{.name = "NVIDIA H200"};
  EXPECT_EQ(gpu_selection({gpu, gpu}, true).count, why_no_nccl().empty() ? 2 : 1);
  EXPECT_EQ(gpu_selection({gpu, gpu}, false).count, 1) << "their ranks would be processes";
}

TEST(Gpus, AreAsManyAsRanksThatNcclConnects) {
  EXPECT_EQ(why_not_on_gpus(parallel(1), 1, 1), "");
  EXPECT_EQ(why_not_on_gpus(parallel(2), 1, 1), "") << "a lone rank";
  EXPECT_EQ(why_not_on_gpus(parallel(2), 2, 2), why_no_nccl());
  EXPECT_THAT(why_not_on_gpus(parallel(8), 8, 1),
              AllOf(HasSubstr("tensor-parallel 8 x context-parallel 1 x pipeline-parallel 1"),
                    HasSubstr("there is 1; choose"), HasSubstr("lone_rank=")));
  EXPECT_THAT(why_not_on_gpus(parallel(8), 8, 4), HasSubstr("there are 4; choose"));
}

TEST(Gpus, FuseAttentionAsFarAsTheBuildDoes) {
  RunConfig config = parallel(1);
  config.attention = AttentionKind::fused;
  EXPECT_NE(why_not_on_gpus(config, 1, 1), "") << "not in float32";
  config.type = DType::bf16;
  EXPECT_EQ(why_not_on_gpus(config, 1, 1),
            why_no_fused_attention({.type = DType::bf16,
                                    .head_size = config.model.head_size(),
                                    .cols = config.model.sequence}));
  config.model.attention_softcap = 50;
  EXPECT_EQ(why_not_on_gpus(config, 1, 1),
            why_no_fused_attention({.type = DType::bf16,
                                    .head_size = config.model.head_size(),
                                    .cols = config.model.sequence,
                                    .softcap = true}));
  config.type = DType::f32;
  EXPECT_THAT(why_not_on_gpus(config, 1, 1), Not(HasSubstr("--attention separate")))
      << "which this model is refused";
  config.model.attention_softcap = 0;
  config.model.window = 8;
  EXPECT_THAT(why_not_on_gpus(config, 1, 1), Not(HasSubstr("--attention separate")));
  config.model.window = 0;
  config.type = DType::bf16;
  EXPECT_EQ(make_target({.on = "cpu"})->why_not(config), "");
  EXPECT_EQ(make_target({.on = "virtual"})->why_not(config), "");
}

TEST(CheckThreads, AreTheProcessorsAlone) {
  check_threads({}, "cuda", false);
  check_threads(2, "both", true);
  EXPECT_THAT([] { check_threads(2, "cuda", false); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("--threads is 2"), HasSubstr("cuda"), HasSubstr("--on cpu"))));
}

TEST(Target, SaysWhatElseDecides) {
  const auto place = make_target({.on = "cpu"});
  const Target& cpu = *place;
  const CpuLevel unset("");
  EXPECT_TRUE(cpu.options(DType::f32).empty());
  const CpuLevel baseline("baseline");
  EXPECT_EQ(cpu.options(DType::f32).at("simd"), "baseline");
  EXPECT_TRUE(make_target({.on = "virtual"})->options(DType::f32).empty());
}

TEST(Target, RefusesInstructionsThatAreNotThere) {
  const CpuLevel nonsense("nonsense");
  EXPECT_THAT([] { make_target({.on = "cpu"}); },
              ThrowsMessage<InputError>(HasSubstr("FRUGAL_SIMD")));
  make_target({.on = "virtual"});
}

TEST(CommandPrefix, HasTheVariables) {
  EXPECT_EQ(command_prefix({{"threads", "2"}, {"cuBLASLt", "13.0.0"}}), "");
  EXPECT_EQ(
      command_prefix({{"cuda_synchronous", "yes"}, {"simd", "avx2"}, {"float32_products", "tf32"}}),
      "FRUGAL_TF32=1 FRUGAL_SIMD=avx2 FRUGAL_CUDA_SYNCHRONOUS=1 ");
}

TEST(Gpus, WithoutOneThereIsNoTarget) {
  const std::string why = why_no_gpu();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT([] { make_target({.on = "cuda"}); }, ThrowsMessage<InputError>(why));
  EXPECT_THAT([] { make_target(lone("cuda")); }, ThrowsMessage<InputError>(why));
}

TEST(DeviceKind, ByTheFirstWord) {
  EXPECT_EQ(device_kind("cpu"), DeviceKind::cpu);
  EXPECT_EQ(device_kind("virtual"), DeviceKind::simulated);
  EXPECT_EQ(device_kind("virtual:x"), DeviceKind::simulated);
  for (const char* bad : {"", "cpu:x", "cuda:0", "virtually", "gpu"})
    EXPECT_THROW(device_kind(bad), InputError) << bad;
  EXPECT_EQ(source_of(DeviceKind::cuda), Source::measured);
}

TEST(CpuTarget, ARankHasItsShareOfTheMemory) {
  const auto target = make_target({.on = "cpu"});
  RunConfig six;
  six.tensor_parallel = 2;
  six.pipeline_parallel = 3;
  EXPECT_EQ(target->memory_of_rank(six), target->memory_of_rank(RunConfig()) / 6);
}

}  // namespace
}  // namespace frugal::harness
