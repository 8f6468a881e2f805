// frugal_micro: what one call of something costs the host, and a GPU. `frugal bench --read` makes
// records of what it writes with --benchmark_out. --on=cuda or --on=virtual:MACHINE is where calls
// of a device are; cuda where there is a GPU and nothing is said.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/micro/devices.h"
#include "bench/namespace.h"
#include "harness/place/environment.h"
#include "harness/record/google_benchmark.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::bench {
namespace {

/// Takes --on out of the arguments: Google Benchmark refuses what it does not know.
std::string take_place(int& argc, char** argv) {
  constexpr std::string_view flag = "--on=";
  std::string on = why_no_gpu().empty() ? "cuda" : "";
  char** const end = std::remove_if(argv + 1, argv + argc, [&](const char* word) {
    const bool is_it = std::string_view(word).starts_with(flag);
    if (is_it) on = word + flag.size();
    return is_it;
  });
  argc = static_cast<int>(end - argv);
  return on;
}

void add_devices(const std::string& on) {
  if (on.empty()) return;
  const std::shared_ptr<const Target> target = make_target({.on = on});
  if (target->kind() == DeviceKind::cpu)
    throw InputError(
        "--on=cpu: a processor's calls are there anyway; give cuda or virtual:MACHINE");
  const nlohmann::json device = {{"on", target->on()},
                                 {"device", target->device()},
                                 {"environment", environment(target->kind())}};
  benchmark::AddCustomContext(micro_context::devices, device.dump());
  add_device_benchmarks(target);
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  using namespace frugal::harness;
  try {
    const std::string on = frugal::bench::take_place(argc, argv);
    benchmark::AddCustomContext(micro_context::environment, environment(DeviceKind::cpu).dump());
    benchmark::AddCustomContext(micro_context::program, program_hash());
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    frugal::bench::add_devices(on);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
  } catch (const frugal::kernels::InputError& error) {
    fmt::print(stderr, "frugal_micro: {}\n", error.what());
    return 2;
  }
}
