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
  /// The interval at `early_level`, of exact_median() alone.
  std::optional<Interval> early = {};
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
/// Estimate of the median.
Estimate median_estimate(std::span<const double> samples, const Bootstrap& bootstrap = {});

/// Levels of the intervals that verdicts follow from, and of those by which a measurement may end
/// before its budget does (docs/verdicts.md): the former err to a side in 2.5 % of all cases at
/// most, each look at the latter in 0.25 %.
inline constexpr double final_level = 0.95, early_level = 0.995;
/// Looks at most, so that all of them together err to a side in 5 % of all cases at most.
inline constexpr int most_looks = 10;

/// The median, with the values that a sign test does not reject at either of these levels: an order
/// statistic on each side, which covers the true median at least as often as it says, whatever the
/// distribution. A percentile bootstrap of 6 to 20 samples covers it in 87 to 94 % of all cases.
/// `tests`: how many such intervals are to hold together (Bonferroni). No interval where the range
/// of all samples would not do. Throws std::invalid_argument where there is no sample.
Estimate exact_median(std::span<const double> samples, int tests = 1);
/// exact_median() of a[i] / b[i], for samples taken in the same rounds. Throws as paired_ratio().
Estimate exact_ratio(std::span<const double> a, std::span<const double> b, int tests = 1);

/// Median of a[i] / b[i] with its percentile bootstrap interval, for samples taken in the same
/// rounds (harness/measure/timing.h). Resamples rounds, so that what slowed both of a pair down
/// cancels. Throws std::invalid_argument unless both are equally long and not empty.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b,
                      const Bootstrap& bootstrap = {});

}  // namespace frugal::harness
