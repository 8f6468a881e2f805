#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// How often cases are timed, in which order, and for how long at a time.
struct TimingPlan {
  static constexpr int minimum = 10;  ///< samples of each case, whatever the rule
  /// Minimum in a steady state, where a sample is the mean of a block of executions: as few as
  /// give an interval (interval_minimum).
  static constexpr int steady_minimum = 6;
  int warm_up = 2;                    ///< rounds that are not kept
  int samples = 20;                   ///< kept rounds that are wanted
  double budget = 60;                 ///< seconds after which no round beyond least_rounds() begins
  std::string_view stop = "samples";  ///< the name of a StoppingRule, as its list has it
  double precision = 0.02;            ///< of every time that is wanted; see the rule of that name
  /// The seed of the rounds' order (RoundOrder); none: a caller that records draws one.
  std::optional<uint32_t> order_seed = {};
  bool steady = false;  ///< a turn is a block of executions (steady_turn), not one
  /// Seconds of such a turn, and those at its beginning of which nothing is kept: a GPU at its
  /// power cap takes some tenths of a second to settle on a clock for what it computes.
  double block = 2, settling = 0.5;

  int least_rounds() const { return steady ? steady_minimum : minimum; }
};

/// A record's option of cases that were timed in a steady state, and its value.
inline constexpr const char *turns_option = "turns", *steady_turns = "steady";

/// Order of the cases of each round. Every odd round is shuffled, and the even one that follows it
/// is its reverse: so each case comes first as often as last, and follows each other case as often
/// as it precedes it. The same seed gives the same orders on every machine.
class RoundOrder {
 public:
  RoundOrder(size_t cases, uint32_t seed);
  /// Indices of the cases, in the order of the next round.
  const std::vector<size_t>& next();

 private:
  std::mt19937 random_;
  std::vector<size_t> order_;
  bool reversed_ = true;
};

/// A turn of one case in a steady state: executes it for TimingPlan::block seconds, and asks it to
/// keep what begins after the first TimingPlan::settling of them, once at least. Ends where it
/// returns false.
void steady_turn(const TimingPlan& plan, const std::function<bool(bool keep)>& execute,
                 const std::function<double()>& clock);

/// What a rule may ask of the rounds so far, of which TimingPlan::least_rounds() or more are kept.
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
/// A time in which something ran: seconds of steady_seconds().
struct TimeWindow {
  double begin = 0, end = 0;
};

/// Times cases in rounds, so that a slow moment of the machine falls on all of them, each round in
/// an order of its own, so that none always follows the one that heats the machine most.
/// Each function takes its case's turn and appends its own samples when `keep` is true.
/// Returns the number of kept rounds. Throws Interrupted between two turns when a stop was asked
/// for; whatever a case throws passes through.
int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock = steady_seconds,
                     const std::function<double()>& uncertainty = {},
                     const std::function<bool()>& decided = {});

}  // namespace frugal::harness
