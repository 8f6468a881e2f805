#include "harness/place/cpu_target.h"

#include <fmt/format.h>

#include "harness/place/environment.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/memory_budget.h"

namespace frugal::harness {
namespace {

std::optional<Machine> sheet_of_processor(const TargetOptions& options) {
  choose_kernels();  // says what is wrong with FRUGAL_SIMD
  if (options.machine) return options.machine;
  if (options.hardware.empty()) return std::nullopt;
  return find_machine(options.hardware);
}

}  // namespace

CpuTarget::CpuTarget(const TargetOptions& options)
    : Target(options.on, sheet_of_processor(options), options.deadline),
      threads_(options.threads),
      pinning_(options.pinning) {}

std::string CpuTarget::device() const {
  return fmt::format("{}, {} threads", processor_name(), threads_);
}

std::string CpuTarget::why_no_machine() const {
  return machine() ? "" : "no data sheet of this processor; name one with --hardware";
}

std::unique_ptr<Cluster> CpuTarget::cluster(const RunConfig& config) const {
  return make_cpu_cluster(config, threads_, deadline(), processors_of_ranks(config));
}

std::unique_ptr<Cluster> CpuTarget::cluster_with(const RunConfig& config, int64_t memory) const {
  return make_cpu_cluster(config, threads_, deadline(), processors_of_ranks(config), memory);
}

int64_t CpuTarget::memory_of_rank(const RunConfig& config) const {
  return machine_memory()->capacity() / config.ranks();
}

void CpuTarget::check(const RunConfig& config) const {
  Target::check(config);
  (void)processors_of_ranks(config);
}

std::vector<Processors> CpuTarget::processors_of_ranks(const RunConfig& config) const {
  if (pinning_ == Pinning::none) return {};
  return cores_of_ranks(config, threads_);
}

std::map<std::string, std::string> CpuTarget::options(DType type) const {
  std::map<std::string, std::string> options = Target::options(type);
  if (pinning_ == Pinning::cores) options["pinned"] = "yes";
  if (!wanted_instructions().empty()) options[instructions] = wanted_instructions();
  return options;
}

}  // namespace frugal::harness
