#include "harness/interrupt.h"

#include <csignal>

namespace frugal {
namespace {

volatile std::sig_atomic_t requested = 0;

extern "C" void request_stop(int) { requested = 1; }

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

bool interrupt_requested() noexcept { return requested != 0; }

void stop_if_interrupted() {
  if (interrupt_requested()) throw Interrupted();
}

}  // namespace frugal
