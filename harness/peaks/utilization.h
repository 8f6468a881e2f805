#pragma once
#include <map>
#include <optional>
#include <string>

#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// The peaks that MFU and HFU of a target's runs divide by: FLOP/s of all devices of a run
/// together. The threads that are ranks share one processor; every other rank has a device of its
/// own, and so has one that is absent (Target::devices). The target must outlive it.
class PeakRates {
 public:
  explicit PeakRates(const Target& target) : target_(target) {}

  /// From the data sheet; none where there is no sheet.
  std::optional<double> data_sheet(const RunConfig& config) const;
  /// Why it is not known.
  std::string why_no_data_sheet(const RunConfig& config) const;
  /// As large matrix products reach it here (harness/peaks/peak.h), measured once per type, on a
  /// GPU once in a process; on a virtual machine none, but for one whose file has what was
  /// measured.
  std::optional<double> measured(const RunConfig& config);

 private:
  const Target& target_;
  std::map<DType, double> measured_;
};

/// Sets Utilization::at_clock of a run on GPUs, from the mean clock that they had.
void add_at_clock(Utilization& utilization, const GpuLoads& load,
                  const std::optional<Machine>& data_sheet);

/// MFU and HFU of `flops` in `seconds`.
Utilization utilization(const Flops& flops, double seconds, PeakRates& peaks,
                        const RunConfig& config);

}  // namespace frugal::harness
