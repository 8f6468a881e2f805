#pragma once
#include <functional>

#include "engine/rank.h"
#include "kernels/virtual/replay.h"

namespace frugal::engine {

/// Does again what a rank did in some stretch of a run, without the code that did it: to its
/// device, which offers that (Device::replay()), its ledger and its FLOPs. All is the same to the
/// bit: the device computes its clocks anew from what was issued, FLOPs are added one by one, and
/// bytes are integers.
class RankReplay {
 public:
  struct Stretch {
    Replay::Stretch device;
    Ledger::Sums memory;
    FlopCounter flops;
  };

  explicit RankReplay(Rank& rank) : rank_(rank) {}

  /// Whether the rank's device offers it, and nobody asks for each change of its memory.
  static bool possible(const Rank& rank);

  /// What `make` does. Throws what it throws.
  Stretch note(const std::function<void()>& make);
  /// Whether its memory is free now.
  bool fits(const Stretch& stretch) const;
  void repeat(const Stretch& stretch);

 private:
  Rank& rank_;
};

/// While this lives, nothing counts that a rank does on a device that can repeat: clocks, work,
/// bytes and FLOPs are then what they were before. What it allocates and keeps was counted before.
class Uncounted {
 public:
  explicit Uncounted(Rank& rank);
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  Rank& rank_;
  const Replay::History device_;
  const Ledger::Sums ledger_;
  const FlopCounter flops_;
};

}  // namespace frugal::engine
