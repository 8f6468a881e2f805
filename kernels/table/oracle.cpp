#include "kernels/table/oracle.h"

#include <cmath>
#include <numbers>

namespace frugal::kernels::table {

double& element(const View& v, int64_t batch, int64_t row, int64_t col) {
  const auto last = static_cast<size_t>(v.shape.dims - 1);
  int64_t where = row * v.stride[last - 1] + col * v.stride[last];
  if (last == 2) where += batch * v.stride[0];
  if (last == 3) where += batch / v.shape[1] * v.stride[0] + batch % v.shape[1] * v.stride[1];
  return v.as<double>()[where];
}

double& element(const View& v, int64_t i) {
  int64_t where = 0;
  for (int dim = v.shape.dims - 1; dim >= 0; --dim) {
    where += i % v.shape[dim] * v.stride[static_cast<size_t>(dim)];
    i /= v.shape[dim];
  }
  return v.as<double>()[where];
}

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter[0];
    const uint64_t odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::array<uint32_t, 4> words_of(const RandomStream& stream, int64_t group) {
  const auto g = static_cast<uint64_t>(group);
  return philox(
      {static_cast<uint32_t>(g), static_cast<uint32_t>(g >> 32), stream.site, stream.draw},
      {static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32)});
}

double dropout_factor(const Dropout& dropout, int64_t element) {
  if (!dropout.active()) return 1;
  const int64_t global = dropout.index.at(element);
  const uint32_t word = words_of(dropout.stream, global / 8)[static_cast<size_t>(global % 8 / 2)];
  const uint32_t random = global % 2 == 0 ? word & 0xffffU : word >> 16;
  // Written out, as in the documentation of Dropout.
  const double below = std::round(static_cast<double>(dropout.probability) * 65536);
  return random >= below ? 65536 / (65536 - below) : 0;
}

void decide(std::vector<double>& mask, const Dropout& dropout) {
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = dropout_factor(dropout, static_cast<int64_t>(i)) > 0 ? 1 : 0;
}

GlobalIndex scattered(uint64_t seed, int64_t run) {
  if (seed == 0) return {};
  // Group numbers pass 2^32 on the way: of dropout, and of normal numbers 2^33.
  return {(int64_t{1} << 35) - static_cast<int64_t>(seed % 1000), run, 3 * run + 1};
}

namespace {

constexpr double root_two_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

double gelu_tanh(double x) { return std::tanh(root_two_over_pi * (x + 0.044715 * x * x * x)); }
double gelu_inner(double x) { return root_two_over_pi * (1 + 3 * 0.044715 * x * x); }

}  // namespace

double gelu_of(double x) { return x * (1 + gelu_tanh(x)) / 2; }

double gelu_slope(double x) {
  const double t = gelu_tanh(x);
  return (1 + t) / 2 + x * (1 - t * t) * gelu_inner(x) / 2;
}

double gelu_slope_scale(double x) { return 1 + std::abs(x) * gelu_inner(x); }

}  // namespace frugal::kernels::table
