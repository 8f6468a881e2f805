#include "harness/peak.h"

#include <algorithm>

#include "harness/timing.h"

namespace frugal {
namespace {

constexpr TimingPlan plan{.warm_up = 2, .samples = TimingPlan::minimum, .budget = 0};

/// Any small model makes a cluster of one rank; only its processor is used.
std::unique_ptr<Cluster> one_rank(int threads) {
  RunConfig config;
  config.model = {.name = "", .layers = 1, .hidden = 8, .heads = 1, .sequence = 8, .vocabulary = 8};
  return make_cpu_cluster(config, threads);
}

double time_operation(Device& device, const Operation& operation) {
  const double start = device.now();
  device.execute(operation);
  device.synchronize();
  return device.now() - start;
}

/// Random elements: products of zeros or denormals may be faster or slower than those of numbers.
Tensor random_tensor(Rank& rank, DType type, const Shape& shape) {
  Tensor tensor = rank.allocate(type, shape);
  RandomNormal fill;
  fill.x = tensor;
  rank.run(fill);
  return tensor;
}

/// Work per second in each sample.
Estimate rate_of(double work, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(work / s);
  return median_estimate(rates);
}

}  // namespace

SquareGemm::SquareGemm(DType type, int64_t size, int threads) : cluster_(one_rank(threads)) {
  Rank& rank = cluster_->rank(0);
  a_ = random_tensor(rank, type, {size, size});
  b_ = random_tensor(rank, type, {size, size});
  c_ = rank.allocate(type, {size, size});
  gemm_.a = a_;
  gemm_.b = b_;
  gemm_.c = c_;
}

double SquareGemm::run() { return time_operation(cluster_->rank(0).device, gemm_); }

std::vector<int64_t> gemm_sizes(DType type) {
  if (type == DType::f64) return {64, 128, 256};
  return {512, 1024, 2048};
}

std::vector<GemmRate> gemm_rates(DType type, int threads) {
  std::vector<SquareGemm> gemms;
  std::vector<GemmRate> rates;
  for (const int64_t size : gemm_sizes(type)) {
    gemms.emplace_back(type, size, threads);
    rates.push_back({type, size, 0, {}, {}});
  }
  std::vector<std::function<void(bool)>> cases;
  for (size_t i = 0; i < gemms.size(); ++i)
    cases.emplace_back([&, i](bool keep) {
      const double seconds = gemms[i].run();
      if (keep) rates[i].seconds.push_back(seconds);
    });
  time_interleaved(cases, plan);
  for (size_t i = 0; i < gemms.size(); ++i) {
    const Estimate rate = rate_of(gemms[i].flops(), rates[i].seconds);
    rates[i].flops_per_second = rate.value;
    rates[i].interval = *rate.interval;
  }
  return rates;
}

const GemmRate& measured_peak(const std::vector<GemmRate>& rates) {
  return *std::max_element(rates.begin(), rates.end(), [](const GemmRate& a, const GemmRate& b) {
    return a.flops_per_second < b.flops_per_second;
  });
}

GemmRate gemm_peak(DType type, int threads) { return measured_peak(gemm_rates(type, threads)); }

CopyRate copy_rate(int threads) {
  const auto cluster = one_rank(threads);
  Rank& rank = cluster->rank(0);
  constexpr int64_t elements = int64_t{1} << 26;  // 256 MiB
  const Tensor x = random_tensor(rank, DType::f32, {elements}),
               y = rank.allocate(DType::f32, {elements});
  Convert copy;
  copy.x = x;
  copy.y = y;
  CopyRate rate;
  rate.bytes = x.view().bytes() + y.view().bytes();
  const auto run = [&](bool keep) {
    const double seconds = time_operation(rank.device, copy);
    if (keep) rate.seconds.push_back(seconds);
  };
  time_interleaved({run}, plan);
  const Estimate estimate = rate_of(static_cast<double>(rate.bytes), rate.seconds);
  rate.bytes_per_second = estimate.value;
  rate.interval = *estimate.interval;
  return rate;
}

}  // namespace frugal
