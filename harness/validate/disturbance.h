#pragma once
#include <cstdint>
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// What others had of the processors meanwhile, as fractions of all their time.
struct Disturbance {
  double others = 0;  ///< other processes of this system
  double steal = 0;   ///< what a hypervisor gave to others
  bool known = false;

  /// Enough to make times of a sound machine vary.
  bool heavy() const { return others + steal > 0.1; }
  std::string text() const;
  /// To whom that matters.
  static constexpr const char* advice = "validate again when the machine is quiet";
};

/// Whether the system is a guest of a hypervisor, by the processor's flags ("hypervisor" among
/// those of /proc/cpuinfo): other guests share its memory and caches, and nothing here says when.
bool is_guest(const std::string& flags);
bool is_guest();

/// The processors' time so far, in ticks, and this process's own.
class ProcessorTimes {
 public:
  static ProcessorTimes now();
  /// What happened since then.
  Disturbance since(const ProcessorTimes& then) const;

  /// Times as /proc/stat has them.
  int64_t total = 0, busy = 0, steal = 0;
  double own = 0;  ///< ticks
  bool known = false;
};
/// The first line of /proc/stat: "cpu  user nice system idle iowait irq softirq steal …".
ProcessorTimes parse_processor_times(const std::string& line);

}  // namespace frugal::harness
