#pragma once
#include <string>

#include "harness/namespace.h"
#include "kernels/support/error.h"

namespace frugal::harness {

/// From now on the first SIGINT or SIGTERM asks for a stop at the next safe point; a second one
/// ends the process at once.
void catch_interrupts();
bool interrupt_requested() noexcept;
/// A safe point. Throws Interrupted when a stop was asked for.
void stop_if_interrupted();

/// While one is alive, a process that waits for others waits on after an interrupt: it stops at the
/// safe points alone, where its training can be kept.
class StopsAtSafePoints {
 public:
  explicit StopsAtSafePoints(bool alone);
  ~StopsAtSafePoints();
  StopsAtSafePoints(const StopsAtSafePoints&) = delete;
  StopsAtSafePoints& operator=(const StopsAtSafePoints&) = delete;

 private:
  const bool before_;
};
/// Whether a process that waits for others is to stop.
bool stop_while_waiting() noexcept;

/// An interrupt of a run that has kept what it did: the message says what goes on from there.
class Kept : public Interrupted {
 public:
  explicit Kept(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace frugal::harness
