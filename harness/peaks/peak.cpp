#include "harness/peaks/peak.h"

#include <algorithm>

#include "harness/place/target.h"

namespace frugal::harness {
namespace {

Tensor random_tensor(Rank& rank, DType type, const Shape& shape) {
  Tensor tensor = rank.allocate(type, shape);
  RandomNormal fill;
  fill.x = tensor;
  rank.run(fill);
  return tensor;
}

/// Or on a virtual machine, whose devices are GPUs: their rates are those of the same products.
bool on_gpu(DeviceKind on) { return on != DeviceKind::cpu; }
bool on_gpu(const Target& target) { return on_gpu(target.kind()); }

}  // namespace

std::unique_ptr<Cluster> one_rank(const Target& target) {
  // Any small model makes a cluster of one rank; only its device is used.
  RunConfig config;
  config.model = {.name = "", .layers = 1, .hidden = 8, .heads = 1, .sequence = 8, .vocabulary = 8};
  return target.cluster(config);
}

Repeated repeated_in_turn(Device& device, std::vector<Operation> operations, double shortest) {
  return {[&device, operations = std::move(operations), next = size_t{0}](int n) mutable {
            device.synchronize();
            const double start = device.now();
            for (int i = 0; i < n; ++i) device.execute(operations[next++ % operations.size()]);
            device.synchronize();
            return device.now() - start;
          },
          shortest};
}

double shortest_sample(const Target& target) {
  return target.kind() == DeviceKind::cuda ? 5e-3 : 0;
}

TimedGemm::TimedGemm(Rank& rank, DType type, const Product& product, double shortest)
    : a_(random_tensor(rank, type, product.shape_of_a())),
      b_(random_tensor(rank, type, product.shape_of_b())),
      c_(random_tensor(rank, product.type_of_c(type), product.shape_of_c())),
      gemm_(product.gemm(a_, b_, c_)),
      timed_(repeated_in_turn(rank.device, {gemm_}, shortest)) {}

void Rate::set(double work) {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(work / s);
  const Estimate estimate = median_estimate(rates);
  value = estimate.value;
  interval = estimate.interval.value();
}

std::vector<GemmShape> gemm_shapes(const Target& target, DType type) {
  return gemm_shapes(target.kind(), type);
}

std::vector<GemmShape> gemm_shapes(DeviceKind on, DType type) {
  std::vector<GemmShape> shapes;
  std::vector<int64_t> sizes = {512, 1024, 2048};
  if (type == DType::f64) sizes = {64, 128, 256};
  if (on_gpu(on)) sizes = {1024, 2048, 4096, 8192};
  if (on_gpu(on) && type == DType::bf16) sizes.push_back(16384);
  for (const int64_t size : sizes) shapes.push_back({size, size, size});
  if (!on_gpu(on)) return shapes;
  // Rows are 2048 tokens of 4 sequences; query, key and value, projection, and the two of the MLP.
  for (const int64_t t : {8, 1})
    shapes.insert(shapes.end(), {{8192, int64_t{3} * 6144 / t, 6144},
                                 {8192, 6144, 6144 / t},
                                 {8192, 24576 / t, 6144},
                                 {8192, 6144, 24576 / t}});
  return shapes;
}

namespace {

/// Times the products of rates by turns.
template <typename ProductRate>
void time_products(const std::vector<Product>& products, const Target& target,
                   std::vector<ProductRate>& rates) {
  const auto cluster = one_rank(target);
  std::vector<TimedGemm> gemms;
  for (size_t i = 0; i < rates.size(); ++i)
    gemms.emplace_back(cluster->rank(0), rates[i].type, products[i], shortest_sample(target));
  std::vector<std::function<void(bool)>> cases;
  for (size_t i = 0; i < gemms.size(); ++i)
    cases.emplace_back([&, i](bool keep) {
      const double seconds = gemms[i].run();
      if (keep) rates[i].seconds.push_back(seconds);
    });
  time_interleaved(cases, rate_timing);
  for (size_t i = 0; i < gemms.size(); ++i) {
    rates[i].repetitions = gemms[i].repetitions();
    rates[i].set(gemms[i].flops());
  }
}

}  // namespace

std::vector<GemmRate> gemm_rates(DType type, const Target& target) {
  std::vector<GemmRate> rates;
  std::vector<Product> products;
  for (const GemmShape& shape : gemm_shapes(target, type)) {
    rates.emplace_back();
    rates.back().type = type;
    rates.back().shape = shape;
    products.push_back(shape.product());
  }
  time_products(products, target, rates);
  return rates;
}

std::vector<LinearSize> linear_sizes(DeviceKind on) {
  if (!on_gpu(on)) return {{512, 768, 3072}};
  // Up to the width of the MLP in GPT-2 124M, GPT-2 1.5B, Llama 3 8B and the 22B model.
  return {{16384, 768, 3072}, {4096, 1600, 6400}, {8192, 4096, 14336}, {8192, 6144, 24576}};
}

std::vector<LinearRate> linear_rates(DType type, const Target& target) {
  std::vector<LinearRate> rates;
  std::vector<Product> products;
  for (const LinearSize& size : linear_sizes(target.kind()))
    for (const Product& product : products_of(size)) {
      rates.emplace_back();
      rates.back().type = type;
      rates.back().product = product;
      products.push_back(product);
    }
  time_products(products, target, rates);
  return rates;
}

const GemmRate& measured_peak(const std::vector<GemmRate>& rates) {
  return *std::max_element(rates.begin(), rates.end(),
                           [](const GemmRate& a, const GemmRate& b) { return a.value < b.value; });
}

GemmRate gemm_peak(DType type, const Target& target) {
  return measured_peak(gemm_rates(type, target));
}

CopyRate copy_rate(const Target& target) {
  const auto cluster = one_rank(target);
  Rank& rank = cluster->rank(0);
  const int64_t elements = int64_t{1} << (on_gpu(target) ? 28 : 26);  // 1 GiB, 256 MiB
  const Tensor x = random_tensor(rank, DType::f32, {elements}),
               y = rank.allocate(DType::f32, {elements});
  Repeated copy = repeated_in_turn(rank.device, {Convert{x, y}}, shortest_sample(target));
  CopyRate rate;
  rate.bytes = x.view().bytes() + y.view().bytes();
  const auto run = [&](bool keep) {
    const double seconds = copy.run();
    if (keep) rate.seconds.push_back(seconds);
  };
  time_interleaved({run}, rate_timing);
  rate.repetitions = copy.repetitions();
  rate.set(static_cast<double>(rate.bytes));
  return rate;
}

namespace {

LaunchTime launch_time_of(Device& device, const Operation& small) {
  std::vector<double> each, issue;
  const auto run = [&](bool keep) {
    device.synchronize();
    const double start = device.now();
    for (int i = 0; i < LaunchTime::operations; ++i) device.execute(small);
    const double issued = device.now();
    device.synchronize();
    const double end = device.now();
    if (!keep) return;
    issue.push_back((issued - start) / LaunchTime::operations);
    each.push_back((end - start) / LaunchTime::operations);
  };
  time_interleaved({run}, rate_timing);
  return {median_estimate(each), median_estimate(issue)};
}

}  // namespace

LaunchTime launch_time(const Target& target) {
  const auto cluster = one_rank(target);
  Rank& rank = cluster->rank(0);
  const Tensor x = rank.allocate(DType::f32, {1});
  return launch_time_of(rank.device, Fill{x, 1});
}

LaunchTime product_launch_time(const Target& target) {
  constexpr int64_t size = 16;
  const auto cluster = one_rank(target);
  Rank& rank = cluster->rank(0);
  const Tensor x = random_tensor(rank, DType::bf16, {size, size}),
               y = rank.allocate(DType::bf16, {size, size});
  return launch_time_of(rank.device, Gemm{.a = x, .b = x, .c = y});
}

}  // namespace frugal::harness
