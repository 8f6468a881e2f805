#pragma once
#include <span>
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
/// Throws std::invalid_argument where a side has no sample.
Estimate ratio_of_medians(const ProcessSamples& base, const ProcessSamples& candidate,
                          const Bootstrap& bootstrap = {});

/// Of processes that ran by turns, the logarithm of each turn's ratio of medians: what slowed both
/// of a turn down cancels. Throws std::invalid_argument where turns are not pairs.
std::vector<double> log_ratios_of_turns(const ProcessSamples& base,
                                        const ProcessSamples& candidate);
/// The ratio at their center_of(), with its exact 95 % interval.
Estimate ratio_of_turns(std::span<const double> log_ratios);

}  // namespace frugal::harness
