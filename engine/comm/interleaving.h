#pragma once
#include <functional>

#include "engine/namespace.h"

namespace frugal::engine {

class Pending;

/// Two pieces of work that one rank interleaves: while one would have the compute stream wait for
/// other ranks, the other issues what it computes. Each has a stack of its own, and both
/// are the caller's thread. They take turns where they wait and nowhere else, so ranks that do the
/// same start their collectives in the same order.
class Interleaving {
 public:
  using Work = std::function<void(Interleaving&)>;

  /// Does both, beginning with the first, and returns when both have ended. Where one of them
  /// throws, the other is unwound from where it waits, and what was thrown goes on from here.
  /// Throws InputError where there is no memory for a stack.
  static void run(const Work& first, const Work& second);

  /// Called by the one that is about to wait for other ranks. The other runs until it is about to
  /// wait too, or has ended; returns at once if it has.
  void before_wait();

 private:
  class Switch;
  explicit Interleaving(Switch& between) : between_(between) {}

  Switch& between_;
};

/// Waits for what was started; until then what is `beside` it, if anything is, goes on.
void wait_beside(Interleaving* beside, Pending& started);

}  // namespace frugal::engine
