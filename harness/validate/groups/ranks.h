#pragma once
#include <vector>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// How much longer a rank takes than the median of the others, as a fraction, round by round: what
/// slows all of them down in a round cancels. Seconds of each rank, in as many rounds.
Estimate slower_than_others(const std::vector<std::vector<double>>& ranks, size_t rank);

/// What is a slow rank: half of 20 %, which is to be found, and surely more than a twentieth.
inline constexpr double slower_rank = 0.10, surely_slower_rank = 0.05;
bool is_slower_rank(const Estimate& slower);

}  // namespace frugal::harness
