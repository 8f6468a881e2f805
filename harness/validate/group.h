#pragma once
#include <string_view>
#include <vector>

#include "harness/place/gpu_state.h"
#include "harness/record/gpu_load.h"
#include "harness/validate/disturbance.h"
#include "harness/validate/expectations.h"
#include "harness/validate/finding.h"
#include "harness/validate/probe.h"
#include "harness/validate/workbench.h"

namespace frugal::harness {

/// What was seen, for those who judge it.
struct Watched {
  Workbench& bench;
  const Expectations& expectations;
  std::vector<Series> series;
  double seconds = 0;                 ///< that the watch took
  Disturbance disturbance;            ///< of it
  GpuStates gpus_before, gpus_after;  ///< before and after the watch; empty on the cpu
  GpuLoads gpu_load = {};             ///< in the watch; empty on the cpu

  /// Null where no group that runs has such a probe.
  const Series* find(std::string_view key) const;
  /// Series whose keys begin so.
  std::vector<const Series*> all(std::string_view prefix) const;
};

/// What belongs together of a validation. One file each in groups/, and a line in their list.
struct CheckGroup {
  std::string_view name;
  std::string_view question;  ///< that it answers, for the report and the help
  /// What is looked at before anything is timed: whether it computes rightly.
  std::vector<Finding> (*before)(Workbench& bench) = nullptr;
  /// What has to be timed for it.
  std::vector<Probe> (*probes)(Workbench& bench) = nullptr;
  std::vector<Finding> (*judge)(const Watched& watched) = nullptr;
};

/// Checks each device by itself. Where there are several, their findings' names begin so:
/// "gpu 1/".
std::vector<Finding> of_each_device(const std::vector<Rank*>& devices,
                                    const std::function<std::vector<Finding>(Rank&)>& check);

/// In the order in which they are reported.
const std::vector<CheckGroup>& check_groups();

CheckGroup operations_group();
CheckGroup products_group();
CheckGroup peaks_group();
CheckGroup rooflines_group();
CheckGroup collectives_group();
CheckGroup models_group();
CheckGroup ranks_group();
CheckGroup drift_group();
CheckGroup variation_group();
CheckGroup gpus_group();

/// The least speed, relative to what it should be, that passes: as far from all of it as from half
/// of it, as ratios. What is to be found is a half; a sound machine that others use, or another one
/// of its kind, is a tenth or two slower.
inline constexpr double least_speed = 0.7;

/// One check for each that knows how fast a probe should be, and for those given; one that is
/// skipped where nobody does.
std::vector<Finding> against_expectations(std::string_view group, const Watched& watched,
                                          const Series& series,
                                          std::vector<Expectation> given = {});

/// The same finding where it failed and others left the series too little alone to say so: not
/// judged.
Finding unless_disturbed(Finding finding, bool judgeable, const Disturbance& disturbance);

/// A rate in units that people read: "62.1 GB/s", "0.24 ms".
std::string in_words(double value, const std::string& unit);
/// With its interval.
std::string in_words(const Estimate& estimate, const std::string& unit);

}  // namespace frugal::harness
