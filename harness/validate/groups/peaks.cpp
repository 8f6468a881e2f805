// How fast products, memory and launches are, against whoever knows how fast they should be.
#include <fmt/format.h>

#include "harness/peaks/peak.h"
#include "harness/report/commands/peak_report.h"
#include "harness/validate/group.h"
#include "harness/validate/groups/out_of_cache.h"

namespace frugal::harness {
namespace {

Probe product_probe(Workbench& bench, DType type) {
  const int64_t n = bench.on_gpu() ? (type == DType::bf16 ? 8192 : 4096) : 512;
  const auto gemm = std::make_shared<TimedGemm>(bench.rank(), type, GemmShape{n, n, n},
                                                shortest_sample(bench.target()));
  return {.key = fmt::format("flops_{}", type_label(type, bench.target().tf32(type))),
          .what = fmt::format("product of {}, {}", n, name_of(type)),
          .unit = "FLOP/s",
          .work = gemm->flops(),
          .burst = bench.on_gpu() ? 1 : 8,
          .seconds = [gemm] { return gemm->run(); }};
}

Probe launch_probe(Workbench& bench) {
  constexpr int in_a_row = 500;
  const auto x = std::make_shared<Tensor>(bench.rank().allocate(DType::f32, {1}));
  return {.key = "operation_time",
          .what = "a small operation",
          .unit = "s",
          .burst = 3,
          .seconds = [device = &bench.rank().device, x] {
            device->synchronize();
            const double start = device->now();
            for (int i = 0; i < in_a_row; ++i) device->execute(Fill{*x, 1});
            device->synchronize();
            return (device->now() - start) / in_a_row;
          }};
}

std::vector<Probe> peak_probes(Workbench& bench) {
  return {product_probe(bench, DType::f32), product_probe(bench, DType::bf16),
          bandwidth_probe(bench), copy_probe(bench), launch_probe(bench)};
}

std::vector<Finding> judge_peaks(const Watched& watched) {
  std::vector<Finding> checks;
  for (const char* prefix :
       {"flops_", "memory_bandwidth", "memory/copy", "operation_time", "clock"})
    for (const Series* series : watched.all(prefix))
      for (Finding& check : against_expectations("peaks", watched, *series))
        checks.push_back(std::move(check));
  return checks;
}

}  // namespace

CheckGroup peaks_group() {
  return {.name = "peaks",
          .question = "are products, memory and launches as fast as they should be?",
          .probes = peak_probes,
          .judge = judge_peaks};
}

}  // namespace frugal::harness
