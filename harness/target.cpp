#include "harness/target.h"

#include <fmt/format.h>

#include "harness/environment.h"
#include "harness/peak.h"
#include "kernels/support/error.h"

namespace frugal {

Target::Target(const std::string& on, int threads, const std::string& hardware)
    : threads_(threads) {
  const size_t colon = on.find(':');
  const std::string kind = on.substr(0, colon);
  std::string machine = colon == std::string::npos ? "" : on.substr(colon + 1);
  if (kind == "cuda")
    throw InputError(
        "--on is \"cuda\", and there is no CUDA device in this build; use cpu or virtual");
  if ((kind != "cpu" && kind != "virtual") || (kind == "cpu" && colon != std::string::npos))
    throw InputError(fmt::format("--on is \"{}\"; it must be cpu, virtual or virtual:MACHINE", on));
  if (!hardware.empty() && !machine.empty())
    throw InputError("a machine is named by --on and by --hardware; leave one of them out");
  if (machine.empty()) machine = hardware;
  if (machine.empty() && kind == "virtual") machine = papers_machine;
  if (!machine.empty()) machine_ = find_machine(machine);
  on_ = kind == "cpu" ? kind : "virtual:" + machine_->name;
}

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
