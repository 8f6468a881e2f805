#pragma once
#include <optional>
#include <span>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// How a time changes over a watch.
struct Trend {
  double minutes = 0;  ///< from the first to the last
  /// From beginning to end, as a fraction: 0.1 is 10 % longer. Theil and Sen's line through the
  /// logarithms: the median of the slopes of all pairs, which a third of wild values do not move.
  double change = 0;
  Interval interval;  ///< of it, 99 % (Sen 1968, from the variance of Kendall's S)
  /// The shortest of the last quarter over the shortest of the first, less 1. What comes and goes
  /// leaves it alone: one undisturbed moment in each is enough.
  double envelope = 0;
  size_t blocks = 0;  ///< of which one value each is left
};

/// Of times taken at these moments (seconds, rising). What disturbs lasts for a while, so that
/// neighbours are alike and would count twice: of each block of `block` seconds the shortest
/// counts. None of fewer than 8 blocks.
std::optional<Trend> trend_of(std::span<const double> at, std::span<const double> seconds,
                              double block);

/// The least change that is a drift, of so many minutes: half of 10 % a minute, which is to be
/// found, and never below what a sound machine shows by itself.
double least_drift(double minutes);
/// Whether it became slower: by the line, surely, and by the envelope.
bool drifts(const Trend& trend);

}  // namespace frugal::harness
