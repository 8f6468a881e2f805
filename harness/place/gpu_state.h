#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"
#include "kernels/cpu/cores.h"

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

/// States of all GPUs that this process uses, now.
GpuStates gpu_states();

/// State of a GPU that changes while it computes, at one moment.
struct GpuMoment {
  std::optional<int> sm_clock, memory_clock;          ///< MHz
  std::optional<double> power;                        ///< W, a mean of the last second on most GPUs
  std::optional<double> energy;                       ///< J, since the driver was loaded
  std::optional<int> temperature;                     ///< °C
  std::optional<std::vector<std::string>> throttled;  ///< as in GpuState
};

/// Moment of each GPU of gpus() (kernels/cuda/gpus.h), now; none where why_no_gpu_states() says
/// why.
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
/// "16-31"]; empty where it does not say. `sysfs` is where it does.
std::vector<std::string> numa_nodes(const std::filesystem::path& sysfs = "/sys");
/// The node of a PCI device, "0000:1b:00.0"; none where the kernel does not say, or has one only.
std::optional<int> numa_node_of(const std::string& device,
                                const std::filesystem::path& sysfs = "/sys");

/// Of `allowed`, those next to a GPU of that node, of these nodes; all of them where there is one
/// node. Throws InputError where the GPU's is not known, or none of its processors is allowed.
Processors processors_near(std::optional<int> node, const std::vector<std::string>& nodes,
                           const Processors& allowed);
/// The same of `count` GPUs of gpus() from `first` on, here and now, of those that the calling
/// thread may run on.
std::vector<Processors> processors_near_gpus(int first, int count);

}  // namespace frugal::harness
