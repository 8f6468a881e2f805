#include "harness/place/environment.h"

#include <dnnl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "build_info.h"
#include "engine/comm/nccl/nccl.h"
#include "harness/place/gpu_state.h"
#include "harness/place/processes.h"
#include "harness/record/or_null.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cuda/gpus.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line) || line.empty()) return std::nullopt;
  return line;
}

/// The first value of a key of /proc/cpuinfo.
std::optional<std::string> cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.rfind(key, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return std::nullopt;
}

/// Processors that share no core with another, or none where the kernel does not say.
std::optional<int64_t> physical_cores() {
  std::set<std::string> cores;
  for (int64_t i = 0; i < sysconf(_SC_NPROCESSORS_CONF); ++i) {
    const auto siblings =
        first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i));
    if (siblings) cores.insert(*siblings);
  }
  if (cores.empty()) return std::nullopt;
  return static_cast<int64_t>(cores.size());
}

/// "L1 data": "48K" and so on, as the kernel prints them, of the first processor.
json caches() {
  json all = json::object();
  for (int i = 0; i < 8; ++i) {
    const std::string index = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const auto level = first_line(index + "level"), type = first_line(index + "type"),
               size = first_line(index + "size");
    if (!level || !type || !size || *type == "Instruction") continue;
    all[*type == "Data" ? "L" + *level + " data" : "L" + *level] = *size;
  }
  return all;
}

/// Those instruction sets of the processor that decide which kernels run.
json simd() {
  static constexpr std::array<std::string_view, 14> matters = {
      "sse4_2",      "avx",         "f16c",        "fma",      "avx2",     "avx512f",  "avx512vl",
      "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "asimd"};
  std::istringstream words(cpuinfo("flags").value_or(cpuinfo("Features").value_or("")));
  const std::set<std::string, std::less<>> flags{std::istream_iterator<std::string>(words), {}};
  json found = json::array();
  for (const auto& flag : matters)
    if (flags.count(flag) != 0) found.push_back(flag);
  return found;
}

json libraries() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"CLI11", CLI11_VERSION}};
}

constexpr const char* algorithms = "gemm_algorithms";
json algorithms_json() {
  const GemmAlgorithms so_far = gemm_algorithms();
  return {{"timed", so_far.timed}, {"cached", so_far.cached}};
}

constexpr const char* state_of_gpus = "gpu_state";

json build_json() {
  const bool known = *build::commit != '\0';
  return {{"type", FRUGAL_BUILD_TYPE},
#ifdef __clang__
          {"compiler", "clang " __clang_version__},
#else
          {"compiler", "gcc " __VERSION__},
#endif
          {"commit", known ? json(build::commit) : json(nullptr)},
          {"dirty", known ? json(build::dirty) : json(nullptr)}};
}

}  // namespace

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::string processor_name() { return cpuinfo("model name").value_or("unknown processor"); }

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), ms);
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

json to_json(const Gpu& gpu) {
  return {{"name", gpu.name},
          {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
          {"memory_bytes", gpu.memory},
          {"l2_bytes", gpu.l2},
          {"multiprocessors", gpu.multiprocessors},
          {"driver_cuda", cuda_version(gpu.driver)},
          {"runtime_cuda", cuda_version(gpu.runtime)}};
}

std::map<std::string, std::string> gpu_libraries() {
  std::map<std::string, std::string> versions = cuda_libraries();
  if (const std::string nccl = nccl_version(); !nccl.empty()) versions["NCCL"] = nccl;
  return versions;
}

json environment(std::optional<DeviceKind> of) {
  utsname system = {};
  uname(&system);
  std::array<double, 3> load = {};
  const bool loaded = getloadavg(load.data(), 3) == 3;
  json all = {{"processor",
               {{"model", or_null(cpuinfo("model name"))},
                {"architecture", system.machine},
                {"physical_cores", or_null(physical_cores())},
                {"usable_processors", usable_processors()},
                {"caches", caches()},
                {"numa_nodes", numa_nodes()},
                {"simd", simd()},
                {"governor",
                 or_null(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))}}},
              {"memory_bytes", int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)},
              {"kernel", fmt::format("{} {}", system.sysname, system.release)},
              {"build", build_json()},
              {"libraries", libraries()},
              {"load_average", loaded ? json(load) : json(nullptr)}};
  if (of == DeviceKind::cpu) all["kernels"] = choose_instructions();
  if (const Processes* const processes = Processes::here()) all.update(processes->environment());
  if (of != DeviceKind::cuda) return all;
  for (const Gpu& gpu : gpus()) all["gpus"].push_back(to_json(gpu));
  all["libraries"].update(json(gpu_libraries()));
  all[algorithms] = algorithms_json();
  all[state_of_gpus] = to_json(gpu_states());
  return all;
}

std::string ended(const std::string& environment) {
  json all = json::parse(environment);
  if (all.contains(algorithms)) all[algorithms] = algorithms_json();
  if (all.contains(state_of_gpus)) add_end(all[state_of_gpus], gpu_states());
  return all.dump();
}

}  // namespace frugal::harness
