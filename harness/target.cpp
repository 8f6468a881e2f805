#include "harness/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/environment.h"
#include "harness/peak.h"
#include "harness/record.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

/// Values only: another source or description of the same number changes no result.
std::string hash_of_values(const Machine& machine) {
  std::string values = machine.name;
  for (const auto& parameter : machine.parameters)
    values += fmt::format(" {}={}", parameter.key, parameter.value);
  for (const auto& tile : machine.tiles) values += fmt::format(" {}x{}", tile.m, tile.n);
  return hash_of(values);
}

/// A file may bear a name that is known, or that another file bears: only the program's own
/// machines go by their name alone.
std::string label_of(const Machine& machine) {
  const std::string hash = hash_of_values(machine);
  const auto names = machine_names();
  const bool own = std::find(names.begin(), names.end(), machine.name) != names.end() &&
                   hash_of_values(find_machine(machine.name)) == hash;
  return own ? fmt::format("virtual:{}", machine.name)
             : fmt::format("virtual:{}#{}", machine.name, hash.substr(0, 8));
}

}  // namespace

DeviceKind device_kind(std::string_view on) {
  if (on == "cpu") return DeviceKind::cpu;
  if (on == "cuda") return DeviceKind::cuda;
  if (on == "virtual" || on.starts_with("virtual:")) return DeviceKind::simulated;
  throw InputError(fmt::format("--on is \"{}\"; it must be cpu, virtual or virtual:MACHINE", on));
}

Target::Target(const std::string& on, int threads, const std::string& hardware)
    : kind_(device_kind(on)), threads_(threads) {
  if (kind_ == DeviceKind::cuda)
    throw InputError(
        "--on is \"cuda\", and there is no CUDA device in this build; use cpu or virtual");
  const size_t colon = on.find(':');
  std::string machine = colon == std::string::npos ? "" : on.substr(colon + 1);
  if (!hardware.empty() && !machine.empty())
    throw InputError("a machine is named by --on and by --hardware; leave one of them out");
  if (machine.empty()) machine = hardware;
  if (machine.empty() && simulated()) machine = papers_machine;
  if (!machine.empty()) machine_ = find_machine(machine);
  on_ = simulated() ? label_of(*machine_) : on;
}

std::string Target::machine_hash() const { return machine_ ? hash_of_values(*machine_) : ""; }

std::string Target::device() const {
  return simulated() ? machine_->description
                     : fmt::format("{}, {} threads", processor_name(), threads_);
}

std::unique_ptr<Cluster> Target::cluster(const RunConfig& config) const {
  return simulated() ? make_virtual_cluster(config, *machine_) : make_cpu_cluster(config, threads_);
}

std::optional<double> Target::data_sheet_peak(const RunConfig& config) const {
  if (!machine_) return std::nullopt;
  const double peak = machine_->peak_flops(config.type);
  return simulated() ? peak * config.tensor_parallel : peak;
}

std::optional<double> Target::measured_peak(const RunConfig& config) {
  if (simulated()) return std::nullopt;
  const auto found = measured_.find(config.type);
  if (found != measured_.end()) return found->second;
  return measured_[config.type] = gemm_peak(config.type, threads_).flops_per_second;
}

}  // namespace frugal
