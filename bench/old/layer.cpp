// One transformer layer, forward + backward, against this machine's own GEMM rate: the share of it
// that the layer's model FLOPs reach (equation 7 of korthikanti2022, one layer). The GEMM rate is
// the measured peak of harness/peaks/peak.h, the best of its sizes. All are timed in the same
// run, interleaved. h 1024, a 16, s 512, b 4, dropout 0.1, nothing recomputed.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "bench/namespace.h"
#include "engine/train/module_run.h"
#include "harness/measure/flops.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/peaks/peak.h"
#include "harness/place/target.h"
#include "kernels/cpu/waiting.h"

namespace frugal::bench {
namespace {

RunConfig layer_config(DType type) {
  RunConfig c;
  c.model = {.name = "layer",
             .layers = 1,
             .hidden = 1024,
             .heads = 16,
             .sequence = 512,
             .vocabulary = 1024,
             .dropout = 0.1};
  c.micro_batch = 4;
  c.type = type;
  return c;
}

void compare(DType type, int threads, int samples) {
  const RunConfig config = layer_config(type);
  const auto cluster = make_cpu_cluster(config, threads);
  ModuleRun layer(*cluster);
  const double flops =
      module_flops(config.model, Module::layer, static_cast<double>(config.micro_batch));
  std::vector<double> layer_rate;
  std::vector<std::function<void(bool)>> cases = {[&](bool keep) {
    const ModuleTime time = layer.time();
    if (keep) layer_rate.push_back(flops / (time.forward + time.backward));
  }};
  const auto place = make_target({.on = "cpu", .threads = threads});
  const Target& target = *place;
  const auto alone = one_rank(target);
  const std::vector<GemmShape> shapes = gemm_shapes(target, type);
  std::vector<TimedGemm> gemms;
  for (const GemmShape& shape : shapes)
    gemms.emplace_back(alone->rank(0), type, shape, shortest_sample(target));
  std::vector<std::vector<double>> rates(gemms.size());
  for (size_t i = 0; i < gemms.size(); ++i)
    cases.emplace_back([&, i](bool keep) {
      const double seconds = gemms[i].run();
      if (keep) rates[i].push_back(gemms[i].flops() / seconds);
    });
  time_interleaved(cases, {.warm_up = 2, .samples = samples, .budget = 60});
  size_t best = 0;
  for (size_t i = 1; i < rates.size(); ++i)
    if (median(rates[i]) > median(rates[best])) best = i;
  const Estimate ratio = paired_ratio(layer_rate, rates[best]);
  fmt::print(
      "{:<5} layer {:6.1f} GFLOP/s  gemm {}³ {:6.1f} GFLOP/s  ratio {:.3f} [{:.3f}, {:.3f}]\n",
      name_of(type), median(layer_rate) / 1e9, shapes[best].m, median(rates[best]) / 1e9,
      ratio.value, ratio.interval->low, ratio.interval->high);
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int samples = argc > 2 ? std::atoi(argv[2]) : 20;
  fmt::print("{} threads, {} rounds, median and 95 % bootstrap interval\n", threads, samples);
  for (const frugal::kernels::DType type :
       {frugal::kernels::DType::f32, frugal::kernels::DType::bf16})
    frugal::bench::compare(type, threads, samples);
}
