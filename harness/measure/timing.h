#pragma once
#include <functional>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// How often cases are timed.
struct TimingPlan {
  static constexpr int minimum = 10;  ///< samples of each case, whatever the budget
  int warm_up = 2;                    ///< rounds that are not kept
  int samples = 20;                   ///< kept rounds that are wanted, at least `minimum`
  double budget = 60;                 ///< seconds after which no round beyond `minimum` begins
};

/// Seconds on the machine's steady clock.
double steady_seconds();

/// Times cases in rounds A B C A B C …, so that a slow moment of the machine falls on all of them.
/// Each function runs its case once and appends its own samples when `keep` is true.
/// Returns the number of kept rounds. Throws Interrupted between two runs when a stop was asked
/// for; whatever a case throws passes through.
int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock = steady_seconds);

}  // namespace frugal::harness
