// NVIDIA's management library of the emulated GPUs, as a driver would bring it: the program loads
// it by its name. Names and numbers are those of nvml.h.
#include "harness/place/nvml.h"

#include <chrono>
#include <cstdio>
#include <cstring>

namespace {

using frugal::harness::nvml::PciInfo;

constexpr int success = 0, invalid = 2, not_supported = 3;

/// GPU 0 is handle 1, and so on: a handle is never null.
size_t gpu_of(const void* device) { return reinterpret_cast<size_t>(device) - 1; }

template <class T>
int set(T* to, T value) {
  *to = value;
  return success;
}

}  // namespace

// NOLINTBEGIN: names and parameters are the library's
extern "C" {

int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.00.00");
  return success;
}

/// The emulated GPUs' UUIDs are zero but for the last byte, the GPU's number.
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  unsigned number = 0;
  const char* const last = std::strrchr(uuid, '-');
  if (last == nullptr || std::sscanf(last, "-%x", &number) != 1) return invalid;
  return set(device, reinterpret_cast<void*>(size_t{number} + 1));
}

int nvmlDeviceGetClockInfo(void*, int clock, unsigned* mhz) {
  return set(mhz, clock == 1 ? 1755U : 2619U);
}
int nvmlDeviceGetMaxClockInfo(void*, int clock, unsigned* mhz) {
  return set(mhz, clock == 1 ? 1980U : 2619U);
}
int nvmlDeviceGetApplicationsClock(void*, int, unsigned*) { return not_supported; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return set(milliwatts, 412500U); }
/// Energy of that power, all the time.
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now().time_since_epoch();
  return set(millijoules, static_cast<unsigned long long>(412500 * time.count()));
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) {
  return set(milliwatts, 700000U);
}
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* milliwatts) {
  return set(milliwatts, 700000U);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return set(celsius, 41U); }
/// The power cap, and a reason that this program does not know yet.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  return set(bits, 0x4ULL | 0x1000ULL);
}
int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* pending) {
  *pending = 0;
  return set(now, 1U);
}
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* pending) {
  *pending = 1;
  return set(now, 0U);
}
int nvmlDeviceGetTotalEccErrors(void*, int kind, int, unsigned long long* count) {
  return set(count, kind == 0 ? 2ULL : 0ULL);
}
int nvmlDeviceGetPersistenceMode(void*, unsigned* mode) { return set(mode, 1U); }
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* generation) { return set(generation, 5U); }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* width) { return set(width, 16U); }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) { return set(generation, 5U); }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) { return set(width, 16U); }
/// 18 links, and no more.
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  return link < 18 ? set(active, 1U) : invalid;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  *info = {};
  info->domain = 0xffff;
  info->bus = static_cast<unsigned>(gpu_of(device));
  return success;
}
/// GPUs of a pair, 0 and 1, 2 and 3, are joined by NVLink; others by the system.
int nvmlDeviceGetP2PStatus(void* a, void* b, int index, int* status) {
  const bool joined =
      index == frugal::harness::nvml::peer_by_nvlink && gpu_of(a) / 2 == gpu_of(b) / 2;
  return set(status, joined ? 0 : 1);
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) { return set(level, 50); }

}  // extern "C"
// NOLINTEND
