#pragma once
#include <cstdint>

#include "harness/namespace.h"

namespace frugal::harness {

/// How this process's threads have had to wait for processors so far: what others have taken from
/// it, and when. An execution during which they did not is one that nobody disturbed, however busy
/// the machine is.
struct Waits {
  int64_t switches = 0;  ///< a thread lost its processor to another (getrusage)
  /// Seconds that threads, those which still are, were ready and had none, where the kernel says
  /// (/proc/self/task/*/schedstat).
  double delay = 0;

  static Waits now();
  /// Waits of the calling thread alone.
  static Waits of_thread();
};

/// Whether an execution of so many seconds between these was left alone: no switch, no more delay
/// than waking up takes, and no thread that ended and took with it what is known of its delay.
bool left_alone(const Waits& before, const Waits& after, double seconds);

}  // namespace frugal::harness
