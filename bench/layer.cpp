// One transformer layer, forward + backward, against this machine's own GEMM rate: the share of it
// that the layer's model FLOPs reach (equation 7 of korthikanti2022, one layer). The GEMM rate is
// that of the measured peak of harness/peaks/peak.h, the best of its sizes. h 1024, a 16, s 512,
// b 4, dropout 0.1, nothing recomputed.
#include <fmt/format.h>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "engine/train/module_run.h"
#include "harness/measure/flops.h"
#include "harness/peaks/peak.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

constexpr const char* whole_layer = "layer";

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

struct TimedLayer {
  std::unique_ptr<Cluster> cluster;
  ModuleRun run;

  TimedLayer(const Target& target, const RunConfig& config)
      : cluster(target.cluster(config)), run(*cluster) {}
  double seconds() {
    const ModuleTime time = run.time();
    return time.forward + time.backward;
  }
};

BenchmarkCase layer_case(const RunConfig& config) {
  return {.config = config, .make = [config](const Target& target) {
            const auto layer = std::make_shared<TimedLayer>(target, config);
            const auto sequences = static_cast<double>(config.micro_batch);
            return std::make_unique<Timed>(module_flops(config.model, Module::layer, sequences),
                                           "FLOP", [layer] { return layer->seconds(); });
          }};
}

/// A square product on a device of its own.
struct TimedSquare {
  std::unique_ptr<Cluster> alone;
  TimedGemm gemm;

  TimedSquare(const Target& target, DType type, const GemmShape& shape)
      : alone(one_rank(target)), gemm(alone->rank(0), type, shape, shortest_sample(target)) {}
};

BenchmarkCase square_case(DType type, const GemmShape& shape) {
  return {.make = [type, shape](const Target& target) {
    const auto square = std::make_shared<TimedSquare>(target, type, shape);
    return std::make_unique<Timed>(square->gemm.flops(), "FLOP",
                                   [square] { return square->gemm.run(); });
  }};
}

/// Those of the measured peak, by name: the same of both types.
std::vector<std::pair<std::string, GemmShape>> squares() {
  std::vector<std::pair<std::string, GemmShape>> all;
  for (const GemmShape& shape : gemm_shapes(DeviceKind::cpu, DType::f32))
    all.emplace_back(fmt::format("gemm-{}", shape.m), shape);
  return all;
}

std::optional<BenchmarkCase> layer_or_square(const Point& point) {
  const DType type = weight_type(point.at("type"));
  for (const auto& [name, shape] : squares())
    if (name == point.at("work")) return square_case(type, shape);
  return layer_case(layer_config(type));
}

}  // namespace

const Benchmark& layer() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = [] {
    std::vector<std::string> products;
    for (const auto& [name, shape] : squares()) products.push_back(name);
    std::vector<std::string> work = products;
    work.insert(work.begin(), whole_layer);
    return Benchmark{
        .name = "layer",
        .title = "A transformer layer, forward and backward, against the fastest square product",
        .axes = {{"type", {"f32", "bf16"}}, {"work", work}},
        .at = layer_or_square,
        .by_turns = {"work"},
        .reference = Reference{"work", products},
        .columns = {{"GFLOP/s", metric::time, Shows::rate, 1e9},
                    {"times the fastest product's", metric::time, Shows::speed}}};
  }();
  return benchmark;
}

}  // namespace frugal::bench
