#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"

/// What a validation times: every probe again and again, by turns with all others, from beginning
/// to end. So that one look serves all: how fast each is, whether one becomes slower, whether two
/// that should be alike are.
namespace frugal::harness {

/// Something that is timed in bursts of a few executions.
struct Probe {
  std::string key;   ///< by which a reference knows it: "memory_bandwidth"
  std::string what;  ///< in words
  std::string unit;  ///< of its rate: "FLOP/s", "B/s"; "s" where the time itself is the result
  double work = 0;   ///< of one execution, in FLOPs or bytes; nothing where the unit is "s"
  int burst = 1;     ///< executions of one burst
  std::function<double()> seconds;  ///< executes once
};

/// What others take from a machine only ever makes an execution longer, and a short one mostly
/// escapes: of a burst the fastest counts.
struct Burst {
  double at = 0;  ///< seconds since the watch began
  double fastest = 0, median = 0;
};

/// What was seen of a probe.
struct Series {
  std::string key, what, unit;
  double work = 0;
  int burst = 1;
  std::vector<Burst> bursts;

  std::vector<double> fastest() const;
  std::vector<double> times() const;
  /// Of an execution that nothing disturbs, in seconds: the fastest twentieth of the
  /// bursts ends there.
  Estimate undisturbed() const;
  /// The same as the probe's unit says: work per second, or seconds.
  Estimate value() const;
  /// How fast, relative to an expected value in the probe's unit: 1 is as fast, 0.5 half as fast.
  Estimate speed(double expected) const;
};

struct WatchPlan {
  double seconds = 0;                ///< no round begins after them
  int rounds = TimingPlan::minimum;  ///< but so many there are
};

/// Executes a burst of every probe, round after round; the first is not kept. Throws Interrupted.
std::vector<Series> watch(const std::vector<Probe>& probes, const WatchPlan& plan,
                          const std::function<double()>& clock = steady_seconds);

}  // namespace frugal::harness
