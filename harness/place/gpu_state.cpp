#include "harness/place/gpu_state.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/place/nvml.h"
#include "harness/record/or_null.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using nvml::Library;

std::optional<int> whole(const std::optional<unsigned>& value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<double> watts(const std::optional<unsigned>& milliwatts) {
  return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
}

std::optional<bool> enabled(const std::optional<unsigned>& value) {
  return value ? std::optional(*value != 0) : std::nullopt;
}

std::optional<int64_t> counted(const std::optional<unsigned long long>& value) {
  return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

std::optional<int> current_clock(const Library& library, nvml::DeviceHandle device,
                                 nvml::Clock clock) {
  return whole(library.get<unsigned>("nvmlDeviceGetClockInfo", device, static_cast<int>(clock)));
}

std::optional<double> power_of(const Library& library, nvml::DeviceHandle device) {
  return watts(library.get<unsigned>("nvmlDeviceGetPowerUsage", device));
}

std::optional<int> temperature_of(const Library& library, nvml::DeviceHandle device) {
  return whole(library.get<unsigned>("nvmlDeviceGetTemperature", device, nvml::temperature_of_gpu));
}

GpuState::Clocks clocks_of(const Library& library, nvml::DeviceHandle device, nvml::Clock clock) {
  const auto get = [&](const char* name) {
    return whole(library.get<unsigned>(name, device, static_cast<int>(clock)));
  };
  return {current_clock(library, device, clock), get("nvmlDeviceGetApplicationsClock"),
          get("nvmlDeviceGetMaxClockInfo")};
}

std::optional<std::vector<std::string>> throttled(const Library& library,
                                                  nvml::DeviceHandle device) {
  // Newer drivers call the same function by another name.
  auto bits = library.get<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons", device);
  if (!bits)
    bits = library.get<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  if (!bits) return std::nullopt;
  std::vector<std::string> words;
  for (const nvml::ThrottleReason& reason : nvml::throttle_reasons) {
    if ((*bits & reason.bit) != 0) words.emplace_back(reason.name);
    *bits &= ~reason.bit;
  }
  if (*bits != 0) words.push_back(fmt::format("unknown ({:#x})", *bits));
  return words;
}

std::optional<int> node_of_gpu(const Library& library, nvml::DeviceHandle device) {
  const auto pci = library.get<nvml::PciInfo>("nvmlDeviceGetPciInfo_v3", device);
  if (!pci) return std::nullopt;
  return numa_node_of(fmt::format("{:04x}:{:02x}:{:02x}.0", pci->domain, pci->bus, pci->device));
}

/// Whether this one is among the kernel's "0-3,8".
bool has_processor(const std::string& ranges, int processor) {
  std::istringstream in(ranges);
  for (std::string range; std::getline(in, range, ',');) {
    int first = -1, last = -1;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (read >= 1 && processor >= first && processor <= (read == 2 ? last : first)) return true;
  }
  return false;
}

GpuState state_of(const Library& library, nvml::DeviceHandle device) {
  const auto number = [&](const char* name) { return whole(library.get<unsigned>(name, device)); };
  const auto errors = [&](nvml::EccErrors kind) {
    return counted(library.get<unsigned long long>("nvmlDeviceGetTotalEccErrors", device,
                                                   static_cast<int>(kind), nvml::volatile_errors));
  };
  GpuState state;
  state.sm = clocks_of(library, device, nvml::Clock::sm);
  state.memory = clocks_of(library, device, nvml::Clock::memory);
  state.power = power_of(library, device);
  state.power_cap = watts(library.get<unsigned>("nvmlDeviceGetPowerManagementLimit", device));
  state.default_power_cap =
      watts(library.get<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit", device));
  state.temperature = temperature_of(library, device);
  state.throttled = throttled(library, device);
  state.ecc = enabled(library.current<unsigned>("nvmlDeviceGetEccMode", device));
  state.mig = enabled(library.current<unsigned>("nvmlDeviceGetMigMode", device));
  state.persistence = enabled(library.get<unsigned>("nvmlDeviceGetPersistenceMode", device));
  state.corrected_errors = errors(nvml::EccErrors::corrected);
  state.uncorrected_errors = errors(nvml::EccErrors::uncorrected);
  state.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration");
  state.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth");
  state.most_pcie_generation = number("nvmlDeviceGetMaxPcieLinkGeneration");
  state.most_pcie_width = number("nvmlDeviceGetMaxPcieLinkWidth");
  for (unsigned link = 0; link < nvml::most_nvlinks; ++link) {
    const auto active = library.get<unsigned>("nvmlDeviceGetNvLinkState", device, link);
    if (!active) break;
    state.nvlinks = state.nvlinks.value_or(0) + 1;
    state.active_nvlinks = state.active_nvlinks.value_or(0) + (*active != 0 ? 1 : 0);
  }
  state.numa_node = node_of_gpu(library, device);
  return state;
}

std::string path_between(const Library& library, nvml::DeviceHandle a, nvml::DeviceHandle b) {
  if (library.get<int>("nvmlDeviceGetP2PStatus", a, b, nvml::peer_by_nvlink) == 0) return "nvlink";
  const auto ancestor = library.get<int>("nvmlDeviceGetTopologyCommonAncestor", a, b);
  if (!ancestor) return "unknown";
  switch (static_cast<nvml::Ancestor>(*ancestor)) {
    case nvml::Ancestor::internal:
      return "same board";
    case nvml::Ancestor::single_switch:
      return "pcie switch";
    case nvml::Ancestor::switches:
      return "pcie switches";
    case nvml::Ancestor::host_bridge:
      return "host bridge";
    case nvml::Ancestor::node:
      return "numa node";
    case nvml::Ancestor::system:
      return "system";
  }
  return "unknown";
}

/// The GPUs of gpus() as the library knows them.
struct KnownGpus {
  Library library;
  std::vector<nvml::DeviceHandle> devices;
  std::string why_unknown = library.why_not();  ///< empty where all are known

  KnownGpus() {
    if (!why_unknown.empty()) return;
    for (const Gpu& gpu : gpus()) {
      const auto device =
          library.get<nvml::DeviceHandle>("nvmlDeviceGetHandleByUUID", gpu.uuid.c_str());
      if (!device) {
        why_unknown = "NVML does not know a GPU that CUDA has, as with one of MIG's parts";
        return;
      }
      devices.push_back(*device);
    }
  }
};

const KnownGpus& known_gpus() {
  static const KnownGpus known;
  return known;
}

GpuMoment moment_of(const Library& library, nvml::DeviceHandle device) {
  const auto energy =
      library.get<unsigned long long>("nvmlDeviceGetTotalEnergyConsumption", device);  // mJ
  return {.sm_clock = current_clock(library, device, nvml::Clock::sm),
          .memory_clock = current_clock(library, device, nvml::Clock::memory),
          .power = power_of(library, device),
          .energy = energy ? std::optional(static_cast<double>(*energy) / 1000) : std::nullopt,
          .temperature = temperature_of(library, device),
          .throttled = throttled(library, device)};
}

json clocks_json(const GpuState::Clocks& clocks) {
  return {{"current", or_null(clocks.current)},
          {"application", or_null(clocks.application)},
          {"max", or_null(clocks.most)}};
}

json states_json(const std::vector<GpuState>& states) {
  json all = json::array();
  for (const GpuState& state : states) all.push_back(to_json(state));
  return all;
}

}  // namespace

GpuStates gpu_states() {
  const auto& [library, devices, why_unknown] = known_gpus();
  GpuStates states;
  states.why_unknown = why_unknown;
  if (!states.why_unknown.empty()) return states;
  states.driver = library.driver();
  for (const nvml::DeviceHandle device : devices) states.gpus.push_back(state_of(library, device));
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = i + 1; j < devices.size(); ++j)
      states.peers.push_back({static_cast<int>(i), static_cast<int>(j),
                              path_between(library, devices[i], devices[j])});
  return states;
}

std::vector<GpuMoment> gpu_moments() {
  std::vector<GpuMoment> moments;
  if (!why_no_gpu_states().empty()) return moments;
  for (const nvml::DeviceHandle device : known_gpus().devices)
    moments.push_back(moment_of(known_gpus().library, device));
  return moments;
}

std::string why_no_gpu_states() { return known_gpus().why_unknown; }

json to_json(const GpuState& state) {
  return {{"sm_clock_mhz", clocks_json(state.sm)},
          {"memory_clock_mhz", clocks_json(state.memory)},
          {"power_watts", or_null(state.power)},
          {"power_cap_watts", or_null(state.power_cap)},
          {"default_power_cap_watts", or_null(state.default_power_cap)},
          {"temperature_celsius", or_null(state.temperature)},
          {"throttle_reasons", or_null(state.throttled)},
          {"ecc", or_null(state.ecc)},
          {"corrected_errors", or_null(state.corrected_errors)},
          {"uncorrected_errors", or_null(state.uncorrected_errors)},
          {"mig", or_null(state.mig)},
          {"persistence", or_null(state.persistence)},
          {"pcie",
           {{"generation", or_null(state.pcie_generation)},
            {"width", or_null(state.pcie_width)},
            {"max_generation", or_null(state.most_pcie_generation)},
            {"max_width", or_null(state.most_pcie_width)}}},
          {"nvlinks", or_null(state.nvlinks)},
          {"active_nvlinks", or_null(state.active_nvlinks)},
          {"numa_node", or_null(state.numa_node)}};
}

json to_json(const GpuStates& states) {
  if (!states.why_unknown.empty()) return {{"unknown", states.why_unknown}};
  json peers = json::array();
  for (const GpuPeers& pair : states.peers)
    peers.push_back({{"gpus", {pair.first, pair.second}}, {"path", pair.path}});
  return {{"driver", or_null(states.driver)},
          {"peers", peers},
          {"begin", states_json(states.gpus)},
          {"end", nullptr}};
}

void add_end(json& begun, const GpuStates& ended) {
  if (ended.why_unknown.empty() && begun.contains("end")) begun["end"] = states_json(ended.gpus);
}

std::vector<std::string> numa_nodes(const std::filesystem::path& sysfs) {
  std::vector<std::string> nodes;
  for (int node = 0;; ++node) {
    std::ifstream in(sysfs / fmt::format("devices/system/node/node{}/cpulist", node));
    std::string processors;
    if (!std::getline(in, processors)) return nodes;
    nodes.push_back(processors);
  }
}

std::optional<int> numa_node_of(const std::string& device, const std::filesystem::path& sysfs) {
  std::ifstream in(sysfs / "bus/pci/devices" / device / "numa_node");
  int node = -1;
  if (!(in >> node) || node < 0) return std::nullopt;
  return node;
}

Processors processors_near(std::optional<int> node, const std::vector<std::string>& nodes,
                           const Processors& allowed) {
  if (nodes.size() < 2) return allowed;
  if (!node || static_cast<size_t>(*node) >= nodes.size())
    throw InputError(
        "--pin: the driver and the kernel do not say to which of this machine's NUMA nodes a GPU "
        "belongs; leave it out, and bind the processes by mpirun or numactl");
  const std::string& here = nodes[static_cast<size_t>(*node)];
  Processors near;
  for (const int processor : allowed)
    if (has_processor(here, processor)) near.push_back(processor);
  if (near.empty())
    throw InputError(fmt::format(
        "--pin: a GPU is next to the processors {}, of which this process may use none; leave it "
        "out, or have the launcher bind no process (mpirun --bind-to none)",
        here));
  return near;
}

std::vector<Processors> processors_near_gpus(int first, int count) {
  const GpuStates states = gpu_states();
  const auto nodes = numa_nodes();
  const Processors allowed = processors_of_this_thread();
  std::vector<Processors> all;
  for (int gpu = first; gpu < first + count; ++gpu) {
    const bool known = states.why_unknown.empty();
    const auto node = known ? states.gpus.at(static_cast<size_t>(gpu)).numa_node : std::nullopt;
    all.push_back(processors_near(node, nodes, allowed));
  }
  return all;
}

}  // namespace frugal::harness
