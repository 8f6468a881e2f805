#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/validate/group.h"

namespace frugal::harness {

struct ValidationPlan {
  bool quick = false;
  std::vector<std::string> groups;  ///< names; all where there are none
  double seconds = 0;               ///< that the watch lasts; 0: as quick says
};

/// Whether a machine is right, and as fast as it should be.
struct Validation {
  static constexpr const char* schema = "frugal.validation/1";

  std::vector<Finding> checks;
  std::vector<Series> series;  ///< empty where it computed wrongly, and nothing was timed
  double seconds = 0;          ///< of all of it
  double watched = 0;          ///< of the watch
  uint32_t order_seed = 0;     ///< of it (WatchPlan)
  GpuLoads gpu_load;           ///< in it; empty on the cpu
  Disturbance disturbance;
  nlohmann::json environment;
  std::string started, ended;

  size_t count(Finding::Outcome outcome) const;
  bool computes_wrongly() const;
  /// Whether no check failed, and one at least could be made.
  bool passes() const;
};

/// The groups of these names, or all. Throws InputError for one that there is not.
std::vector<CheckGroup> chosen_groups(const std::vector<std::string>& names);

/// Correctness first; where a result is wrong, nothing is timed. `says` is told what goes on.
/// Throws InputError, Interrupted, OutOfMemory.
Validation validate(const Target& target, const Expectations& expectations,
                    const ValidationPlan& plan, const std::function<void(std::string)>& says);

}  // namespace frugal::harness
