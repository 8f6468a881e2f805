// What the driver says of the GPUs: whether anything held them back, and whether all of each is
// there.
#include "harness/validate/groups/gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/place/nvml.h"
#include "harness/validate/group.h"

namespace frugal::harness {
namespace {

constexpr const char* gpus_name = "gpus";
/// Watts by which caps are the same.
constexpr double same_cap = 1;

Finding of_gpu(size_t gpu, const char* what, std::string expected) {
  Finding finding{gpus_name, fmt::format("gpu {}/{}", gpu, what)};
  finding.expected = std::move(expected);
  finding.band = "none: it is as the driver says";
  return finding;
}

Finding failed(Finding finding, std::string reason, const char* advice) {
  finding.outcome = Finding::Outcome::failed;
  finding.reason = std::move(reason);
  finding.advice = advice;
  return finding;
}

Finding unknown(Finding finding) {
  return skipped_finding(finding.group, finding.name, "the driver does not say it of this GPU");
}

/// What is at least as much as something, where both are known.
Finding whole_of(Finding finding, std::optional<int> is, std::optional<int> all, const char* what,
                 const char* advice) {
  if (!is || !all) return unknown(std::move(finding));
  finding.seen = fmt::format("{} of {} {}", *is, *all, what);
  return *is >= *all ? finding : failed(finding, "only " + finding.seen, advice);
}

/// "power cap 83 %, thermal slowdown by software 17 %", of the looks in the watch; or why there
/// were none.
std::string seen_in(const GpuLoads& meanwhile, size_t gpu) {
  if (gpu >= meanwhile.gpus.size()) return meanwhile.why_unknown;
  std::string text;
  for (const auto& [reason, part] : meanwhile.gpus[gpu].throttled)
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", reason, 100 * part);
  return text.empty() ? "nothing" : text;
}

Finding throttling(size_t gpu, const GpuState& before, const GpuLoads& meanwhile,
                   const GpuState& after) {
  Finding finding = of_gpu(gpu, "throttling", "no slowdown by heat, power or hardware");
  if (!before.throttled || !after.throttled) return unknown(std::move(finding));
  std::vector<std::string> words = *before.throttled;
  words.insert(words.end(), after.throttled->begin(), after.throttled->end());
  if (gpu < meanwhile.gpus.size())
    for (const auto& [reason, part] : meanwhile.gpus[gpu].throttled) words.push_back(reason);
  finding.seen =
      fmt::format("before: {}; meanwhile: {}; after: {}", fmt::join(*before.throttled, ", "),
                  seen_in(meanwhile, gpu), fmt::join(*after.throttled, ", "));
  for (const nvml::ThrottleReason& reason : nvml::throttle_reasons)
    if (reason.fault && std::find(words.begin(), words.end(), reason.name) != words.end())
      return failed(finding, reason.name, "look at cooling, power supply and temperature");
  return finding;
}

Finding power_cap(size_t gpu, const GpuState& after) {
  Finding finding = of_gpu(gpu, "power cap", "the default power cap");
  if (!after.power_cap || !after.default_power_cap) return unknown(std::move(finding));
  finding.seen = fmt::format("{:.0f} W of {:.0f} W", *after.power_cap, *after.default_power_cap);
  return *after.power_cap >= *after.default_power_cap - same_cap
             ? finding
             : failed(finding, "capped at " + finding.seen, "nvidia-smi --power-limit sets it");
}

Finding memory_errors(size_t gpu, const GpuState& after) {
  Finding finding = of_gpu(gpu, "memory errors", "none that ECC does not correct");
  if (!after.uncorrected_errors) return unknown(std::move(finding));
  finding.seen =
      fmt::format("{} uncorrected since the driver was loaded", *after.uncorrected_errors);
  return *after.uncorrected_errors == 0
             ? finding
             : failed(finding, finding.seen, "do not use this GPU; reset or exchange it");
}

Finding partition(size_t gpu, const GpuState& after) {
  Finding finding = of_gpu(gpu, "mig", "all of the GPU, MIG off");
  if (!after.mig) return unknown(std::move(finding));
  finding.seen = *after.mig ? "MIG is on" : "MIG is off";
  return *after.mig ? failed(finding, "MIG is on: a process has a part of the GPU",
                             "nvidia-smi --multi-instance-gpu 0 turns it off")
                    : finding;
}

}  // namespace

std::vector<Finding> findings_of_gpus(const GpuStates& before, const GpuLoads& meanwhile,
                                      const GpuStates& after) {
  const std::string& why = before.why_unknown.empty() ? after.why_unknown : before.why_unknown;
  if (!why.empty()) return {skipped_finding(gpus_name, "state", why)};
  std::vector<Finding> findings;
  for (size_t gpu = 0; gpu < after.gpus.size(); ++gpu) {
    const GpuState &then = before.gpus.at(gpu), &now = after.gpus[gpu];
    findings.push_back(throttling(gpu, then, meanwhile, now));
    findings.push_back(power_cap(gpu, now));
    findings.push_back(memory_errors(gpu, now));
    findings.push_back(partition(gpu, now));
    findings.push_back(whole_of(of_gpu(gpu, "pcie", "as many PCIe lanes as it has"), now.pcie_width,
                                now.most_pcie_width, "PCIe lanes",
                                "reseat the board, or look at its riser and slot"));
    if (now.nvlinks)
      findings.push_back(whole_of(of_gpu(gpu, "nvlink", "all NVLinks active"), now.active_nvlinks,
                                  now.nvlinks, "NVLinks active",
                                  "look at the fabric manager and the links' errors"));
  }
  return findings;
}

namespace {

std::vector<Finding> judge_gpus(const Watched& watched) {
  if (!watched.bench.on_gpu()) return {};
  return findings_of_gpus(watched.gpus_before, watched.gpu_load, watched.gpus_after);
}

}  // namespace

CheckGroup gpus_group() {
  return {.name = gpus_name,
          .question = "did anything hold the GPUs back, and is all of each there?",
          .judge = judge_gpus};
}

}  // namespace frugal::harness
