#pragma once
#include <span>

#include "harness/namespace.h"

namespace frugal::harness {

/// The two-sided p-value of the rank-sum test (Mann and Whitney, 1947): how often samples of one
/// and the same distribution, divided at random, have ranks that lie as far apart as those of a and
/// b do. Ties have their mean rank. Exact, by counting all divisions, up to `exact_samples` of both
/// together; beyond it the normal approximation with the correction for ties and for continuity.
/// Throws std::invalid_argument where a or b is empty.
double rank_test(std::span<const double> a, std::span<const double> b);
inline constexpr size_t exact_samples = 60;

/// The smallest that it can be, of so many samples.
double smallest_rank_p(size_t a, size_t b);

/// Both ways to get it, for tests of one against the other.
double rank_test_exact(std::span<const double> a, std::span<const double> b);
double rank_test_normal(std::span<const double> a, std::span<const double> b);

/// p-values of several tests, so that all of them together give a false alarm as rarely as one may
/// (Holm, 1979): in the order given, each at least as large as it was.
void adjust_by_holm(std::span<double> p);

}  // namespace frugal::harness
