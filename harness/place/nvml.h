#pragma once
#include <optional>
#include <string>

#include "harness/namespace.h"

/// NVIDIA's management library, which comes with the driver. It is loaded where it is, so that the
/// program needs neither its header nor the library to be built or started. Numbers are those of
/// nvml.h.
namespace frugal::harness::nvml {

using DeviceHandle = struct OpaqueDevice*;

enum class Clock : int { sm = 1, memory = 2 };
enum class EccErrors : int { corrected = 0, uncorrected = 1 };
/// What two GPUs have in common, from a board to nothing but the system.
enum class Ancestor : int {
  internal = 0,
  single_switch = 10,
  switches = 20,
  host_bridge = 30,
  node = 40,
  system = 50
};

inline constexpr int volatile_errors = 0, temperature_of_gpu = 0, peer_by_nvlink = 2,
                     most_nvlinks = 36;

/// Why a clock is below what it could be: bits and words.
struct ThrottleReason {
  unsigned long long bit;
  const char* name;
  bool fault;  ///< of the machine: it should not happen to one that is sound
};
inline constexpr ThrottleReason throttle_reasons[] = {{0x1, "idle", false},
                                                      {0x2, "application clocks", false},
                                                      {0x4, "power cap", false},
                                                      {0x8, "hardware slowdown", true},
                                                      {0x10, "synchronised boost", false},
                                                      {0x20, "thermal slowdown by software", true},
                                                      {0x40, "thermal slowdown by hardware", true},
                                                      {0x80, "power brake", true},
                                                      {0x100, "display clocks", false}};

/// struct nvmlPciInfo_st.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

class Library {
 public:
  Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  /// Why it is not there, in words; empty where it is.
  const std::string& why_not() const { return why_not_; }
  /// "580.95.05"
  std::optional<std::string> driver() const;

  /// What the last parameter of a function is set to; none where there is no such function, or the
  /// GPU does not have it.
  template <class T, class... Parameters>
  std::optional<T> get(const char* name, Parameters... parameters) const {
    const auto function = reinterpret_cast<int (*)(Parameters..., T*)>(find(name));
    T value{};
    if (function == nullptr || function(parameters..., &value) != 0) return std::nullopt;
    return value;
  }
  /// The same of two, of which the first counts: what is, and what will be after the next start.
  template <class T>
  std::optional<T> current(const char* name, DeviceHandle device) const {
    const auto function = reinterpret_cast<int (*)(DeviceHandle, T*, T*)>(find(name));
    T now{}, pending{};
    if (function == nullptr || function(device, &now, &pending) != 0) return std::nullopt;
    return now;
  }

 private:
  void* find(const char* name) const;

  void* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace frugal::harness::nvml
