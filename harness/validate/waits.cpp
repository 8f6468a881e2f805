#include "harness/validate/waits.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>

namespace frugal::harness {
namespace {

/// Of an execution's time: the microseconds that a thread which slept takes to wake up.
constexpr double waking_up = 0.02;

int64_t switches_of(__rusage_who who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage.ru_nivcsw;
}

/// Seconds that it waited for a processor; 0 where the kernel does not say.
double delay_of(const std::filesystem::path& task) {
  std::ifstream in(task / "schedstat");  // nanoseconds on a processor, and waiting for one
  int64_t running = 0, waiting = 0;
  return in >> running >> waiting ? 1e-9 * static_cast<double>(waiting) : 0;
}

}  // namespace

Waits Waits::now() {
  Waits waits{switches_of(RUSAGE_SELF), 0};
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error))
    waits.delay += delay_of(task.path());
  return waits;
}

Waits Waits::of_thread() { return {switches_of(RUSAGE_THREAD), delay_of("/proc/thread-self")}; }

bool left_alone(const Waits& before, const Waits& after, double seconds) {
  const double delay = after.delay - before.delay;  // less than 0 where a thread has ended
  return after.switches == before.switches && delay >= 0 && delay <= waking_up * seconds;
}

}  // namespace frugal::harness
