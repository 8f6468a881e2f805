#pragma once
#include <stdexcept>

#include "harness/namespace.h"

namespace frugal::harness {

/// Thrown at a safe point after Ctrl-C or SIGTERM; exit status 130.
struct Interrupted : std::runtime_error {
  Interrupted()
      : std::runtime_error(
            "interrupted; what was recorded is kept, and the same command runs what was not") {}
};

/// From now on the first SIGINT or SIGTERM asks for a stop at the next safe point; a second one
/// ends the process at once.
void catch_interrupts();
bool interrupt_requested() noexcept;
/// A safe point. Throws Interrupted when a stop was asked for.
void stop_if_interrupted();

}  // namespace frugal::harness
