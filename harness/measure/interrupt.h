#pragma once
#include "harness/namespace.h"

namespace frugal::harness {

/// From now on the first SIGINT or SIGTERM asks for a stop at the next safe point; a second one
/// ends the process at once.
void catch_interrupts();
bool interrupt_requested() noexcept;
/// A safe point. Throws Interrupted when a stop was asked for.
void stop_if_interrupted();

}  // namespace frugal::harness
