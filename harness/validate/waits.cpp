#include "harness/validate/waits.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>

namespace frugal::harness {
namespace {

/// Of an execution's time: the microseconds that a thread which slept takes to wake up.
constexpr double waking_up = 0.02;

}  // namespace

Waits Waits::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Waits waits{usage.ru_nivcsw, 0};
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream in(task.path() / "schedstat");  // nanoseconds on a processor, and waiting for one
    int64_t running = 0, waiting = 0;
    if (in >> running >> waiting) waits.delay += 1e-9 * static_cast<double>(waiting);
  }
  return waits;
}

bool left_alone(const Waits& before, const Waits& after, double seconds) {
  const double delay = after.delay - before.delay;  // less than 0 where a thread has ended
  return after.switches == before.switches && delay >= 0 && delay <= waking_up * seconds;
}

}  // namespace frugal::harness
