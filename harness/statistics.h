#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace frugal {

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

/// A number and how sure it is: an interval where it was sampled, none where it is exact (counted
/// bytes, a virtual clock).
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
};

/// How bootstrap intervals are made. The same samples and seed always give the same interval.
struct Bootstrap {
  double level = 0.95;
  int resamples = 2000;
  uint64_t seed = 1;
};

/// Linear interpolation between order statistics (R's type 7). q in [0, 1]; samples not empty.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

/// Median with its percentile bootstrap interval; a single sample has no interval.
Estimate median_estimate(std::span<const double> samples, const Bootstrap& bootstrap = {});

/// Median of a[i] / b[i] with its percentile bootstrap interval, for samples taken in the same
/// rounds (harness/timing.h). Resamples rounds, so that what slowed both of a pair down cancels.
/// Throws std::invalid_argument unless both are equally long and not empty.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b,
                      const Bootstrap& bootstrap = {});

}  // namespace frugal
