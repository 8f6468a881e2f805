#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// One GPU at one moment, as its driver has it; what the driver does not say is not there. Nothing
/// identifies it.
struct GpuState {
  struct Clocks {
    std::optional<int> current, application, most;  ///< MHz
  };
  Clocks sm, memory;
  std::optional<double> power, power_cap, default_power_cap;  ///< W
  std::optional<int> temperature;                             ///< °C
  /// Why the clock is below what it could be, in words (harness/place/nvml.h).
  std::optional<std::vector<std::string>> throttled;
  std::optional<bool> ecc, mig, persistence;
  std::optional<int64_t> corrected_errors, uncorrected_errors;  ///< since the driver was loaded
  std::optional<int> pcie_generation, pcie_width, most_pcie_generation, most_pcie_width;
  std::optional<int> nvlinks, active_nvlinks;
  std::optional<int> numa_node;
};

/// Two GPUs, by their number, and what is between them.
struct GpuPeers {
  int first = 0, second = 0;
  std::string path;  ///< "nvlink", "pcie switch", "numa node", "system", …
};

struct GpuStates {
  std::optional<std::string> driver;
  std::vector<GpuState> gpus;  ///< in the order of gpus() (kernels/cuda/gpus.h)
  std::vector<GpuPeers> peers;
  std::string why_unknown;  ///< empty where it is known
};

/// Of all GPUs that this process uses, now.
GpuStates gpu_states();

/// What changes of a GPU while it computes, at one moment.
struct GpuMoment {
  std::optional<int> sm_clock, memory_clock;          ///< MHz
  std::optional<double> power;                        ///< W, a mean of the last second on most GPUs
  std::optional<double> energy;                       ///< J, since the driver was loaded
  std::optional<int> temperature;                     ///< °C
  std::optional<std::vector<std::string>> throttled;  ///< as in GpuState
};

/// Of each GPU of gpus() (kernels/cuda/gpus.h), now; none where why_no_gpu_states() says why.
std::vector<GpuMoment> gpu_moments();
/// Why nothing is known of the GPUs; empty where it is.
std::string why_no_gpu_states();

nlohmann::json to_json(const GpuState& state);
/// {"driver": …, "peers": […], "begin": […], "end": null}, as an environment has it; or
/// {"unknown": why}.
nlohmann::json to_json(const GpuStates& states);
/// Sets "end" of it.
void add_end(nlohmann::json& begun, const GpuStates& ended);

/// The NUMA nodes of this machine and their processors, as the kernel lists them: ["0-15",
/// "16-31"]; empty where it does not say.
std::vector<std::string> numa_nodes();

}  // namespace frugal::harness
