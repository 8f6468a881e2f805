#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::kernels {
class JsonObject;
}  // namespace frugal::kernels

namespace frugal::harness {

/// Samples of what the driver said of one GPU while a case took its turns (GpuWatch). What it never
/// said is not there.
struct GpuLoad {
  struct Range {
    double mean = 0, low = 0, high = 0;
    bool operator==(const Range&) const = default;
  };
  int samples = 0;                              ///< that fell in the turns
  std::optional<Range> sm_clock, memory_clock;  ///< MHz
  std::optional<Range> power;                   ///< W
  std::optional<Range> temperature;             ///< °C
  /// Part of the samples in which each reason held the clock back (harness/place/nvml.h).
  std::map<std::string, double> throttled = {};

  bool operator==(const GpuLoad&) const = default;
};

/// Loads of the GPUs that ran a case, or why nothing is known of them.
struct GpuLoads {
  std::vector<GpuLoad> gpus;
  std::string why_unknown;  ///< empty where there are samples

  /// Mean SM clock of all GPUs, in MHz; none where it is not known of one of them.
  std::optional<double> mean_clock() const;
  bool operator==(const GpuLoads&) const = default;
};

nlohmann::json to_json(const GpuLoads& loads);
/// Throws InputError.
GpuLoads gpu_loads_from_json(const JsonObject& object);

}  // namespace frugal::harness
