#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "harness/namespace.h"

namespace frugal::kernels {
class JsonObject;
}  // namespace frugal::kernels

namespace frugal::harness {

/// Smallest, lower quartile, median, upper quartile and largest of some samples.
struct Spread {
  double smallest = 0, lower = 0, median = 0, upper = 0, largest = 0;
};

/// What one rank took for steps, in seconds.
struct RankSamples {
  int stage = 0;                ///< of its pipeline
  std::vector<double> steps;    ///< from the step's beginning to the rank's end of it
  std::vector<double> waiting;  ///< of that, in collectives and for messages; transfers included
};

/// How ranks share the time of a step, and which of them holds the others up.
struct RankStatistics {
  struct Rank {
    int stage = 0;
    Spread step, waiting;
  };
  /// A rank that in three of four steps computes longer than any other rank of its stage does in
  /// three of four: those have the same work.
  struct Straggler {
    int rank = 0;
    double slower = 0;  ///< by this fraction of the others' slowest median
  };
  std::vector<Rank> ranks;
  /// Of each step: how much longer the rank computes that computes longest than the one that
  /// computes shortest, within a stage; the largest of all stages.
  Spread skew;
  std::optional<Straggler> straggler;
};

/// Statistics of as many samples of each rank. A straggler is this much slower.
inline constexpr double straggling = 0.05;
RankStatistics rank_statistics(const std::vector<RankSamples>& ranks);

nlohmann::json to_json(const RankStatistics& statistics);
RankStatistics rank_statistics_from_json(const JsonObject& object);

}  // namespace frugal::harness
