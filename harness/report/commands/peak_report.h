#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/peaks/collective_rates.h"
#include "harness/peaks/peak.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// All that `frugal peak` finds out about a target.
struct Peaks {
  static constexpr const char* schema = "frugal.peak/1";

  bool simulated = false;                    ///< by a virtual clock: no samples, no intervals
  bool tf32 = false;                         ///< products of float32 are tf32's (Target::tf32)
  std::vector<std::vector<GemmRate>> gemms;  ///< those of each type
  std::vector<LinearRate> linears;           ///< of all types
  CopyRate copy;
  LaunchTime launch, product_launch;
  std::vector<CollectiveRate> collectives;
  std::string why_no_collectives;  ///< empty where there are some
};

/// What products of a type are called: "tf32" where those of float32 are.
std::string_view type_label(DType type, bool tf32);

/// Measures it. Collectives where the target has several GPUs.
Peaks measure_peaks(const Target& target);

/// docs/peak.md
nlohmann::json to_json(const Peaks& peaks, const Target& target);
Table peak_table(const Peaks& peaks);

/// A machine as it was measured, in the terms of hardware/ (docs/peak.md): `name` is the file's,
/// `command` made it.
nlohmann::json measured_machine(const Peaks& peaks, const Target& target, const std::string& name,
                                const std::string& command);

}  // namespace frugal::harness
