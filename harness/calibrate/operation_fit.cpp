#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "harness/calibrate/least_squares.h"
#include "harness/measure/runs/operation_times.h"
#include "harness/measure/statistics.h"

namespace frugal::harness {
namespace {

struct MeasuredSize {
  Work work;
  double seconds = 0;
};

constexpr size_t count = Work::terms;
using Coefficients = std::array<double, count>;

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

/// The best coefficients of which only those of `chosen` are not 0; none where several do as well.
std::optional<Coefficients> best_of(const std::vector<MeasuredSize>& sizes, unsigned chosen) {
  Coefficients scale{};  // all terms alike
  for (const MeasuredSize& size : sizes)
    for (size_t i = 0; i < count; ++i)
      scale[i] = std::max(scale[i], size.work.product[i] / std::sqrt(size.seconds));
  std::vector<size_t> in;
  for (size_t i = 0; i < count; ++i)
    if ((chosen >> i & 1U) != 0 && scale[i] > 0) in.push_back(i);
  std::vector<std::vector<double>> normal(in.size(), std::vector<double>(in.size()));
  std::vector<double> right(in.size());
  for (const MeasuredSize& size : sizes) {
    const Coefficients& t = size.work.product;
    for (size_t i = 0; i < in.size(); ++i) {
      const double own = t[in[i]] / scale[in[i]];
      for (size_t j = 0; j < in.size(); ++j)
        normal[i][j] += own * t[in[j]] / scale[in[j]] / size.seconds;
      right[i] += own;
    }
  }
  const std::vector<double> solution = solve(std::move(normal), std::move(right));
  if (solution.empty()) return std::nullopt;  // or nothing was chosen that any size has
  Coefficients x{};
  for (size_t i = 0; i < in.size(); ++i) x[in[i]] = solution[i] / scale[in[i]];
  return x;
}

/// Least squares with no coefficient below 0: the best of all choices of those
/// that are above.
MeasuredForm fit_product(const std::vector<MeasuredSize>& sizes) {
  Coefficients best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << count; ++chosen) {
    const auto x = best_of(sizes, chosen);
    if (!x || !std::all_of(x->begin(), x->end(), [](double v) { return v >= 0; })) continue;
    const double error = error_of(sizes, *x);
    if (error < least) {
      least = error;
      best = *x;
    }
  }
  return {.prices = best, .points = {}};
}

/// Sizes rise. A larger one takes no less time than a smaller: where it was measured to, they and
/// all between them have their mean, which is the least squares' answer (isotonic regression, by
/// pooling adjacent violators).
MeasuredForm fit_line(const std::vector<MeasuredSize>& sizes) {
  struct Pool {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const MeasuredSize& size : sizes) {
    pools.push_back({size.seconds, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  MeasuredForm form;
  for (const Pool& pool : pools)
    for (size_t i = 0; i < pool.count; ++i)
      form.points.push_back({sizes[form.points.size()].work.bytes, pool.mean()});
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

}  // namespace frugal::harness
