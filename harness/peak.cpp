#include "harness/peak.h"

#include <algorithm>

#include "engine/cluster.h"
#include "harness/interrupt.h"
#include "harness/timing.h"

namespace frugal {
namespace {

/// Any small model makes a cluster of one rank; only its processor is used.
std::unique_ptr<Cluster> one_rank(int threads) {
  RunConfig config;
  config.model = {.name = "", .layers = 1, .hidden = 8, .heads = 1, .sequence = 8, .vocabulary = 8};
  return make_cpu_cluster(config, threads);
}

/// At least five runs, and for a fifth of a second.
std::vector<double> time_operation(Device& device, const Operation& operation) {
  std::vector<double> seconds;
  device.execute(operation);
  device.synchronize();
  const double end = device.now() + 0.2;
  while (seconds.size() < 5 || device.now() < end) {
    stop_if_interrupted();
    const double start = device.now();
    device.execute(operation);
    device.synchronize();
    seconds.push_back(device.now() - start);
  }
  return seconds;
}

/// Random elements: products of zeros or denormals may be faster or slower than those of numbers.
Tensor random_tensor(Rank& rank, DType type, const Shape& shape) {
  Tensor tensor = rank.allocate(type, shape);
  RandomNormal fill;
  fill.x = tensor;
  rank.run(fill);
  return tensor;
}

}  // namespace

GemmRate gemm_rate(DType type, int64_t size, int threads) {
  GemmRate rate{type, size, 0, {}};
  one_rank(threads)->run([&](Rank& rank) {
    const Shape shape{size, size};
    const Tensor a = random_tensor(rank, type, shape), b = random_tensor(rank, type, shape),
                 c = rank.allocate(type, shape);
    Gemm gemm;
    gemm.a = a;
    gemm.b = b;
    gemm.c = c;
    rate.seconds = time_operation(rank.device, gemm);
    rate.flops_per_second =
        gemm.cost().flops / *std::min_element(rate.seconds.begin(), rate.seconds.end());
  });
  return rate;
}

GemmRate gemm_peak(DType type, int threads) {
  GemmRate best;
  for (const int64_t size : {512, 1024, 1536}) {
    GemmRate rate = gemm_rate(type, size, threads);
    if (rate.flops_per_second > best.flops_per_second) best = std::move(rate);
  }
  return best;
}

CopyRate copy_rate(int threads) {
  CopyRate rate;
  one_rank(threads)->run([&](Rank& rank) {
    constexpr int64_t elements = int64_t{1} << 26;  // 256 MiB
    const Tensor x = random_tensor(rank, DType::f32, {elements}),
                 y = rank.allocate(DType::f32, {elements});
    Convert copy;
    copy.x = x;
    copy.y = y;
    rate.bytes = x.view().bytes() + y.view().bytes();
    rate.seconds = time_operation(rank.device, copy);
    rate.bytes_per_second = static_cast<double>(rate.bytes) /
                            *std::min_element(rate.seconds.begin(), rate.seconds.end());
  });
  return rate;
}

}  // namespace frugal
