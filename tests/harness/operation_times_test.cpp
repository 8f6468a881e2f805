#include "harness/measure/runs/operation_times.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "engine/train/module_run.h"
#include "harness/calibrate/own_machine.h"
#include "harness/peaks/utilization.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

TEST(OperationFit, FindsThePricesOfAProduct) {
  OperationSamples samples;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> power(3, 9), noise(0.99, 1.01);
  const std::array<double, Work::terms> prices{3e-6, 2e-11, 5e-10, 4e-10, 9e-10};
  for (int i = 0; i < 60; ++i) {
    std::array<double, Work::terms> work{1};
    double seconds = prices[0];
    for (size_t k = 1; k < Work::terms; ++k) {
      work[k] = std::pow(10, power(random));
      seconds += prices[k] * work[k];
    }
    for (int k = 0; k < 11; ++k) samples[{"gemm f32", 0, work}].push_back(noise(random) * seconds);
  }
  const MeasuredForm form = fit_operations(samples).at("gemm f32");
  for (size_t k = 0; k < Work::terms; ++k) EXPECT_NEAR(form.prices[k] / prices[k], 1, 0.03) << k;
}

TEST(OperationFit, NoPriceIsBelowZero) {
  // Ever cheaper the larger it is: a line with the smallest error would begin below 0.
  OperationSamples samples;
  for (const double size : {1e3, 1e4, 1e5})
    samples[{"gemm f32", size, {1, size * size, size}}].push_back(1e-12 * std::pow(size, 1.9));
  const MeasuredForm form = fit_operations(samples).at("gemm f32");
  double sum = 0;
  for (const double price : form.prices) {
    EXPECT_GE(price, 0);
    sum += price;
  }
  EXPECT_GT(sum, 0);
}

/// Isotonic regression by hand: of 5, 2.5 and 3 the mean, and of 9 and 8.
TEST(OperationFit, ALineRises) {
  OperationSamples samples;
  samples[{"gelu f32", 1e3, {1}}] = {1e-6, 3e-6, 2e-6};
  samples[{"gelu f32", 1e4, {1}}] = {5e-6};
  samples[{"gelu f32", 2e4, {1}}] = {2.5e-6};
  samples[{"gelu f32", 4e4, {1}}] = {3e-6};
  samples[{"gelu f32", 1e5, {1}}] = {9e-6};
  samples[{"gelu f32", 2e5, {1}}] = {8e-6};
  const MeasuredForm form = fit_operations(samples).at("gelu f32");
  std::vector<double> seconds;
  for (const auto& point : form.points) seconds.push_back(1e6 * point.seconds);
  EXPECT_THAT(seconds, Pointwise(DoubleEq(), {2.0, 3.5, 3.5, 3.5, 8.5, 8.5}));
  EXPECT_EQ(form.points[3].bytes, 4e4);
}

TEST(OperationTimes, SeeWhatModelsCompute) {
  OperationTimes times(1, 64);
  times.round(true);
  std::set<std::string> forms;
  for (const auto& [key, seconds] : times.samples()) forms.insert(std::get<0>(key));
  EXPECT_THAT(forms, IsSupersetOf({"gemm f32 batched transpose_b",
                                   "softmax f32 causal dropout dropped", "layer-norm f32",
                                   "rms-norm f32", "adam f32", "cross-entropy f32 gradient",
                                   "embedding f32", "fused-attention f32 causal", "rotary f32"}));
}

TEST(OperationTimes, RoundsThatAreNotKeptLeaveNothing) {
  OperationTimes times(1, 64);
  times.round(false);
  EXPECT_TRUE(times.samples().empty());
  times.round(true);
  const size_t once = times.samples().begin()->second.size();
  times.round(true);
  EXPECT_EQ(times.samples().begin()->second.size(), 2 * once);
}

/// A machine of operations that all take a second, but for one product.
TEST(OwnMachine, TakesWhatItsOperationsTook) {
  RunConfig run;
  run.model = {
      .name = "small", .layers = 1, .hidden = 64, .heads = 2, .sequence = 32, .vocabulary = 128};
  const auto place = make_target({.on = "cpu"});
  const Target& target = *place;
  OperationTimes times(1, 64);
  times.round(true);
  MeasuredOperations operations = fit_operations(times.samples());
  for (auto& [name, form] : operations) form = {.prices = {1}, .points = {}};
  operations.at("gemm f32 transpose_b bias") = {.prices = {0.5}, .points = {}};
  Peaks peaks;
  for (const auto& [type, rate] : {std::pair(DType::f32, 2e9), {DType::bf16, 1e9}}) {
    peaks.gemms.emplace_back(1);
    peaks.gemms.back().front().type = type;
    peaks.gemms.back().front().value = rate;
  }
  peaks.copy.value = 3e9;
  peaks.launch.each.value = 1e-6;
  const std::string text = own_machine(peaks, target, "mine", "a test", operations).dump();
  const Machine machine = parse_machine(text, "mine.json");
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.flops_f32, 2e9);
  EXPECT_EQ(machine.flops_bf16, 1e9);
  EXPECT_EQ(machine.kernel_latency, 1e-6);
  EXPECT_EQ(machine.memory_bandwidth, 3e9);
  const auto cluster = make_virtual_cluster(run, machine);
  const ModuleTime layer = ModuleRun(*cluster, Module::layer).time();
  // Two norms, two biases with their dropouts and residuals, softmax, and six products, of which
  // the first has a bias of its own.
  EXPECT_NEAR(layer.forward, 10.5, 1e-3);

  const std::string file = ::testing::TempDir() + "own-machine.json";
  std::ofstream(file) << text;
  const auto described = make_target({.on = "virtual:" + file});
  PeakRates peaks_of_file(*described);
  EXPECT_EQ(peaks_of_file.data_sheet(run), std::nullopt);
  EXPECT_THAT(peaks_of_file.why_no_data_sheet(run), HasSubstr("mine were measured"));
  EXPECT_EQ(peaks_of_file.measured(run), 2e9);
  std::filesystem::remove(file);

  run.tensor_parallel = 2;  // over links that it does not have
  EXPECT_THAT(
      [&] { make_virtual_cluster(run, machine); },
      ThrowsMessage<InputError>(HasSubstr("2 devices are asked for, and the machine mine")));
  run.tensor_parallel = 1;
  run.type = DType::bf16;  // which no operation was measured in
  EXPECT_THAT([&] { make_virtual_cluster(run, machine); },
              ThrowsMessage<InputError>(HasSubstr("machine mine were measured in f32")));
}

}  // namespace
}  // namespace frugal::harness
