#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/validate/waits.h"

/// What a validation times: every probe again and again, by turns with all others, from beginning
/// to end. So that one look serves all: how fast each is, whether one becomes slower, whether two
/// that should be alike are.
namespace frugal::harness {

/// How long it took, and whether others left it alone meanwhile.
struct ObservedTime {
  double seconds = 0;
  bool left_alone = false;
};

/// Something that is timed in bursts of a few executions.
struct Probe {
  std::string key;   ///< by which a reference knows it: "memory_bandwidth"
  std::string what;  ///< in words
  std::string unit;  ///< of its rate: "FLOP/s", "B/s"; "s" where the time itself is the result
  double work = 0;   ///< of one execution, in FLOPs or bytes; nothing where the unit is "s"
  int burst = 1;     ///< executions of one burst
  std::function<double()> seconds;  ///< executes once
  /// Executes once instead, where a thread of its own is what is timed and can be disturbed.
  std::function<ObservedTime()> execution = {};
};

/// What others take from a machine only ever makes an execution longer: the fastest of a burst
/// counts, of those that were left alone.
struct Burst {
  double at = 0;                   ///< seconds since the watch began
  double fastest = 0, median = 0;  ///< of the executions left alone; of all where none was
  bool left_alone = true;          ///< an execution at least was
};

/// What was seen of a probe.
struct Series {
  std::string key, what, unit;
  double work = 0;
  int burst = 1;
  std::vector<Burst> bursts;

  /// Bursts of which an execution was left alone.
  std::vector<Burst> undisturbed_bursts() const;
  /// Whether they are enough to say how long an execution takes.
  bool judgeable() const;
  /// Of an execution that nothing disturbs, in seconds: the lower quartile of the undisturbed
  /// bursts' fastest. Where there are too few, of all bursts: it takes no longer than that.
  Estimate undisturbed() const;
  /// Estimate in the probe's unit: work per second, or seconds.
  Estimate value() const;
  /// How fast, relative to an expected value in the probe's unit: 1 is as fast, 0.5 half as fast.
  Estimate speed(double expected) const;
};

struct WatchPlan {
  double seconds = 0;                ///< no round begins after them
  int rounds = TimingPlan::minimum;  ///< but so many there are
  uint32_t order_seed = 1;           ///< of the probes' order in each round (RoundOrder)
};

/// Executes a burst of every probe, round after round, each in an order of its own; the first round
/// is not kept. Throws Interrupted.
std::vector<Series> watch(const std::vector<Probe>& probes, const WatchPlan& plan,
                          const std::function<double()>& clock = steady_seconds,
                          const std::function<Waits()>& waits = Waits::now);

std::vector<double> fastest_of(const std::vector<Burst>& bursts);

}  // namespace frugal::harness
