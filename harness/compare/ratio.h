#pragma once
#include <vector>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// Samples of a quantity, of each process that took some.
using ProcessSamples = std::vector<std::vector<double>>;

/// The median of each process.
std::vector<double> medians_of(const ProcessSamples& processes);

/// The median of the candidate's processes' medians over that of the base's. Its interval resamples
/// processes, and within each its samples: what differs from process to process (where memory lies,
/// which processors, when) is no less uncertain for more samples of each. None where a side has
/// fewer processes than `interval_minimum`.
/// `by_turns`: process i of both ran one after the other, so both are resampled together, and what
/// slowed both down cancels. Throws std::invalid_argument where a side has no sample, or turns are
/// not pairs.
Estimate ratio_of_medians(const ProcessSamples& base, const ProcessSamples& candidate,
                          bool by_turns, const Bootstrap& bootstrap = {});

}  // namespace frugal::harness
