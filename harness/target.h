#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/cluster.h"
#include "harness/device_kind.h"
#include "kernels/virtual/machine.h"

namespace frugal {

/// The machine of korthikanti2022, in hardware/.
inline constexpr const char* papers_machine = "a100-selene";

/// Where a run takes place: "cpu", or "virtual:" and a machine.
class Target {
 public:
  /// `on` is "cpu", "virtual" (the papers' machine) or "virtual:MACHINE". `hardware` names a
  /// machine or a file: on a virtual target the machine itself, on a real one its data sheet.
  /// Throws InputError for what is neither.
  Target(const std::string& on, int threads, const std::string& hardware = "");

  /// "cpu", or "virtual:NAME" of a machine that this program has (hardware/NAME.json). A machine
  /// with other values than those, or another name, is "virtual:NAME#HASH": HASH is the first 8
  /// digits of its hash.
  const std::string& on() const { return on_; }
  bool simulated() const { return kind_ == DeviceKind::simulated; }
  Source source() const { return source_of(kind_); }
  int threads() const { return threads_; }
  /// The processor or machine in words.
  std::string device() const;
  /// hash_of() the values of the machine or data sheet; empty where there is neither.
  std::string machine_hash() const;
  /// Ranks for this configuration. Throws InputError, OutOfMemory.
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const;

  /// FLOP/s of all devices of a run together, from the data sheet; none where there is no sheet.
  std::optional<double> data_sheet_peak(const RunConfig& config) const;
  /// The same as large matrix products reach it here (harness/peak.h), measured once per type; none
  /// on a virtual machine.
  std::optional<double> measured_peak(const RunConfig& config);

 private:
  DeviceKind kind_;
  std::string on_;
  int threads_;
  std::optional<Machine> machine_;
  std::map<DType, double> measured_;
};

}  // namespace frugal
