// frugal_micro: what one call of something costs the host. `frugal bench --read` makes records of
// what it writes with --benchmark_out.
#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>

#include "bench/namespace.h"
#include "harness/place/environment.h"
#include "harness/record/google_benchmark.h"

int main(int argc, char** argv) {
  using namespace frugal::harness;
  benchmark::AddCustomContext(micro_context::environment, environment(DeviceKind::cpu).dump());
  benchmark::AddCustomContext(micro_context::program, program_hash());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
