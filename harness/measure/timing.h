#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// How often cases are timed.
struct TimingPlan {
  static constexpr int minimum = 10;  ///< samples of each case, whatever the rule
  int warm_up = 2;                    ///< rounds that are not kept
  int samples = 20;                   ///< kept rounds that are wanted
  double budget = 60;                 ///< seconds after which no round beyond `minimum` begins
  std::string_view stop = "samples";  ///< the name of a StoppingRule, as its list has it
  double precision = 0.02;            ///< of every time that is wanted; see the rule of that name
};

/// What a rule may ask of the rounds so far, of which `TimingPlan::minimum` or more are kept.
struct RoundsSoFar {
  const TimingPlan& plan;
  int kept = 0;
  double seconds = 0;  ///< since the first, warm-up included
  /// Half the width of a median's interval over the median, of the time that is known least well;
  /// empty where the caller does not know.
  const std::function<double()>& uncertainty;
  /// Whether every verdict that follows from the times would be the same of their intervals at
  /// `early_level`; empty where none does.
  const std::function<bool()>& decided;
};

/// When cases have been timed often enough.
struct StoppingRule {
  std::string_view name, help;
  bool of_verdicts;  ///< whether it is of a command that judges what it times, and of no other
  bool (*is_enough)(const RoundsSoFar& rounds);
};
const std::vector<StoppingRule>& stopping_rules();

/// Seconds on the machine's steady clock.
double steady_seconds();

/// Times cases in rounds A B C A B C …, so that a slow moment of the machine falls on all of them.
/// Each function runs its case once and appends its own samples when `keep` is true.
/// Returns the number of kept rounds. Throws Interrupted between two runs when a stop was asked
/// for; whatever a case throws passes through.
int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock = steady_seconds,
                     const std::function<double()>& uncertainty = {},
                     const std::function<bool()>& decided = {});

}  // namespace frugal::harness
