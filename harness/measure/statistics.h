#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "harness/namespace.h"

namespace frugal::harness {

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

/// A number and how sure it is: an interval where it was sampled, none where it is exact (counted
/// bytes, a virtual clock).
struct Estimate {
  double value = 0;
  std::optional<Interval> interval = {};
  int samples = 0;  ///< of which it is the median; 0 where it is exact
};

/// The fewest samples that give an interval. The widest interval that n samples can give, from the
/// smallest to the largest, covers the median with probability 1 − 2^(1−n): it is missed only where
/// all samples fall on the same side. That is 94 % for 5 samples and 97 % for 6, so that a 95 %
/// interval of fewer than 6 would not be one.
inline constexpr size_t interval_minimum = 6;

/// How bootstrap intervals are made. The same samples and seed always give the same interval.
struct Bootstrap {
  double level = 0.95;
  int resamples = 2000;
  uint64_t seed = 1;
};

/// Linear interpolation between order statistics (R's type 7). q in [0, 1]; samples not empty.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

/// A quantile with its percentile bootstrap interval; none below `interval_minimum` samples.
Estimate quantile_estimate(std::span<const double> samples, double q,
                           const Bootstrap& bootstrap = {});
/// The same of the median.
Estimate median_estimate(std::span<const double> samples, const Bootstrap& bootstrap = {});

/// Median of a[i] / b[i] with its percentile bootstrap interval, for samples taken in the same
/// rounds (harness/measure/timing.h). Resamples rounds, so that what slowed both of a pair down
/// cancels. Throws std::invalid_argument unless both are equally long and not empty.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b,
                      const Bootstrap& bootstrap = {});

}  // namespace frugal::harness
