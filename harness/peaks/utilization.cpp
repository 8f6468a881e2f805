#include "harness/peaks/utilization.h"

#include <fmt/format.h>

#include "harness/peaks/peak.h"
#include "harness/place/machine_label.h"

namespace frugal::harness {

std::optional<double> PeakRates::data_sheet(const RunConfig& config) const {
  const std::optional<Machine>& machine = target_.machine();
  if (!machine || was_measured(*machine) || target_.tf32(config.type)) return std::nullopt;
  return machine->peak_flops(config.type) * target_.devices(config);
}

std::string PeakRates::why_no_data_sheet(const RunConfig& config) const {
  if (target_.tf32(config.type))
    return "products of float32 are computed in tf32 (FRUGAL_TF32=1), whose peak machine files do "
           "not have";
  if (target_.machine() && was_measured(*target_.machine()))
    return fmt::format("the peaks of the machine {} were measured", target_.machine()->name);
  return target_.why_no_machine();
}

std::optional<double> PeakRates::measured(const RunConfig& config) {
  if (target_.simulated()) {
    if (!was_measured(*target_.machine())) return std::nullopt;
    return target_.machine()->peak_flops(config.type);
  }
  // A GPU is the same for all artifacts of a process; a processor has as many threads as are asked
  // for, and is slower some minutes than others.
  static std::map<DType, double> of_gpu;
  auto& known = target_.kind() == DeviceKind::cuda ? of_gpu : measured_;
  auto found = known.find(config.type);
  if (found == known.end())
    found = known.emplace(config.type, gemm_peak(config.type, target_).value).first;
  return target_.together(found->second, config);
}

void add_at_clock(Utilization& utilization, const GpuLoads& load,
                  const std::optional<Machine>& data_sheet) {
  Utilization::AtClock& at = utilization.at_clock.emplace();
  const auto unknown = [&](const std::string& why) { at.mfu.reason = at.hfu.reason = why; };
  const std::optional<double> mhz = load.mean_clock();
  if (!utilization.mfu_data_sheet.value) return unknown(utilization.mfu_data_sheet.reason);
  if (!mhz)
    return unknown(load.why_unknown.empty() ? "the driver does not say the clock of its GPUs"
                                            : load.why_unknown);
  if (!data_sheet->peak_clock)
    return unknown(fmt::format("the machine {} does not say at which clock its peak is reached",
                               data_sheet->name));
  const double part = *mhz * 1e6 / data_sheet->peak_clock->value;
  at.peak = *utilization.data_sheet_peak * part;
  at.mfu.value = *utilization.mfu_data_sheet.value / part;
  at.hfu.value = *utilization.hfu_data_sheet.value / part;
}

Utilization utilization(const Flops& flops, double seconds, PeakRates& peaks,
                        const RunConfig& config) {
  Utilization u{peaks.data_sheet(config), peaks.measured(config), {}, {}, {}, {}};
  const auto fraction = [&](double count, const std::optional<double>& peak,
                            const std::string& unknown) {
    return peak && seconds > 0 ? Fraction{count / seconds / *peak, ""} : Fraction{{}, unknown};
  };
  const std::string no_sheet = peaks.why_no_data_sheet(config);
  const std::string not_measured = "a virtual machine has no measured peak";
  u.mfu_data_sheet = fraction(flops.model, u.data_sheet_peak, no_sheet);
  u.hfu_data_sheet = fraction(flops.hardware, u.data_sheet_peak, no_sheet);
  u.mfu_measured = fraction(flops.model, u.measured_peak, not_measured);
  u.hfu_measured = fraction(flops.hardware, u.measured_peak, not_measured);
  return u;
}

}  // namespace frugal::harness
