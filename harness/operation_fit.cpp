#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/operation_times.h"
#include "harness/statistics.h"

namespace frugal {
namespace {

struct MeasuredSize {
  Work work;
  double seconds = 0;
};

constexpr size_t count = Work::terms;
using Coefficients = std::array<double, count>;

/// Solves a · x = b by elimination with pivots; where there is no solution, x has what is not
/// finite.
Coefficients solve(std::array<Coefficients, count> a, Coefficients b) {
  for (size_t i = 0; i < count; ++i) {
    size_t pivot = i;
    for (size_t r = i + 1; r < count; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (size_t r = 0; r < count; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (size_t c = i; c < count; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = 0; i < count; ++i) b[i] /= a[i][i];
  return b;
}

/// The sum of the squares of errors, each divided by the time that it is of: relative errors count
/// in proportion to the time that they are about.
double error_of(const std::vector<MeasuredSize>& sizes, const Coefficients& x) {
  double sum = 0;
  for (const MeasuredSize& size : sizes) {
    const Coefficients& t = size.work.product;
    const double predicted = std::inner_product(t.begin(), t.end(), x.begin(), 0.0);
    sum += std::pow(predicted - size.seconds, 2) / size.seconds;
  }
  return sum;
}

/// The best coefficients of which only those of `chosen` are not 0.
Coefficients best_of(const std::vector<MeasuredSize>& sizes, unsigned chosen) {
  std::array<Coefficients, count> normal{};
  Coefficients right{}, scale{};
  for (const MeasuredSize& size : sizes)
    for (size_t i = 0; i < count; ++i)
      scale[i] = std::max(scale[i], size.work.product[i] / std::sqrt(size.seconds));
  const auto in = [&](size_t i) { return (chosen >> i & 1U) != 0 && scale[i] > 0; };
  for (const MeasuredSize& size : sizes) {
    const Coefficients& t = size.work.product;
    for (size_t i = 0; i < count; ++i) {
      if (!in(i)) continue;
      const double own = t[i] / size.seconds / scale[i];
      for (size_t j = 0; j < count; ++j)
        if (in(j)) normal[i][j] += own * t[j] / scale[j];
      right[i] += own * size.seconds;
    }
  }
  for (size_t i = 0; i < count; ++i)
    if (!in(i)) normal[i][i] = 1;
  Coefficients x = solve(normal, right);
  for (size_t i = 0; i < count; ++i) x[i] = in(i) ? x[i] / scale[i] : 0;
  return x;
}

/// Least squares with no coefficient below 0: the best of all choices of those
/// that are above.
MeasuredForm fit_product(const std::vector<MeasuredSize>& sizes) {
  Coefficients best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << count; ++chosen) {
    const Coefficients x = best_of(sizes, chosen);
    if (!std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v) && v >= 0; }))
      continue;
    const double error = error_of(sizes, x);
    if (error < least) {
      least = error;
      best = x;
    }
  }
  return {.prices = best, .points = {}};
}

/// Sizes rise. A larger one takes no less time than a smaller.
MeasuredForm fit_line(const std::vector<MeasuredSize>& sizes) {
  MeasuredForm form;
  for (const MeasuredSize& size : sizes) {
    auto& points = form.points;
    const double least = points.empty() ? 0 : points.back().seconds;
    points.push_back({size.work.bytes, std::max(size.seconds, least)});
  }
  return form;
}

}  // namespace

MeasuredOperations fit_operations(const OperationSamples& samples) {
  std::map<std::string, std::vector<MeasuredSize>> forms;
  for (const auto& [key, seconds] : samples) {
    const auto& [form, bytes, product] = key;
    forms[form].push_back({{bytes, product}, median(seconds)});
  }
  MeasuredOperations operations;
  for (const auto& [form, sizes] : forms)
    operations[form] = sizes.front().work.is_product() ? fit_product(sizes) : fit_line(sizes);
  return operations;
}

}  // namespace frugal
