#include "harness/measure/interrupt.h"

#include <atomic>
#include <csignal>

namespace frugal::harness {
namespace {

// A handler may write it, and any thread may read it.
std::atomic<bool> requested = false;
std::atomic<bool> at_safe_points_alone = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_stop(int) { requested = true; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  // The default action returns after the first signal, so that a second one is not ignored.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupt_requested() noexcept { return requested; }

StopsAtSafePoints::StopsAtSafePoints(bool alone) : before_(at_safe_points_alone.exchange(alone)) {}
StopsAtSafePoints::~StopsAtSafePoints() { at_safe_points_alone = before_; }

bool stop_while_waiting() noexcept { return requested && !at_safe_points_alone; }

void stop_if_interrupted() {
  if (interrupt_requested()) throw Interrupted();
}

}  // namespace frugal::harness
