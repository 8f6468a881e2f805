#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "engine/model/parameter.h"
#include "engine/schedule/schedule.h"
#include "kernels/virtual/device.h"

namespace frugal {

/// What one rank's passes do to a virtual device, its work, its ledger and its FLOPs. It is the
/// same for every microbatch but for the moment, so the first pass of a kind is made by the model's
/// code, and noted; those after it do what was noted, without the code. All is the same to the bit:
/// the device computes its clocks anew from what was issued, FLOPs are added one by one, and bytes
/// are integers.
///
/// A forward pass that was repeated leaves what it keeps for its backward pass in the ledger, but
/// there is no tensor of it. So the backward pass is to be repeated too, or the tensors be made
/// (Uncounted).
class PassMemo {
 public:
  /// Whatever distinguishes passes of one rank in one run.
  struct Key {
    ActionKind kind;
    int chunk;
    Recompute recompute;
    bool turns;               ///< StageExecutor::Flight
    std::vector<bool> fresh;  ///< Parameter::fresh of the chunk's, before the pass
    auto operator<=>(const Key&) const = default;
  };
  /// A pass, without its microbatch.
  class Noted {
   public:
    /// Whether it can be repeated now: not where it cannot be known what it does, nor where it
    /// would run out of memory, which the code reports.
    bool repeatable() const;
    /// Consumes what the pass works on, and returns what it makes, which belongs to this
    /// microbatch; either may be empty. Gradients of the chunk's parameters are as fresh as the
    /// pass has left them.
    Tensor repeat(Tensor input, const ParameterList& parameters, int microbatch) const;

   private:
    friend class PassMemo;
    explicit Noted(Rank& rank) : rank_(&rank) {}

    Rank* rank_;
    bool complete_ = false;
    Tape tape_;
    DeviceWork work_;
    Ledger::Sums memory_;
    FlopCounter flops_;
    Ledger::Entry output_entry_;
    View output_;
    std::vector<bool> fresh_;
  };

  explicit PassMemo(Rank& rank) : rank_(rank) {}

  /// Whether passes of this rank may be noted where nobody looks at what happens within them: on a
  /// virtual device, where nothing goes on from one pass to another.
  static bool possible(const Rank& rank);
  /// Null: has not been made.
  const Noted* find(const Key& key) const;
  /// Makes a pass and notes what it does. `output` is where it leaves its output. Throws what it
  /// throws.
  void note(const Key& key, const std::function<void()>& make, const Tensor& output,
            const ParameterList& parameters);

 private:
  Rank& rank_;
  std::map<Key, Noted> passes_;
};

/// Parameter::fresh of each.
std::vector<bool> fresh_of(const ParameterList& parameters);
void make_fresh(const ParameterList& parameters, const std::vector<bool>& fresh);

/// While this lives, nothing counts that a rank does on a virtual device: clocks, work, bytes and
/// FLOPs are then what they were before. What it allocates and keeps was counted before.
class Uncounted {
 public:
  explicit Uncounted(Rank& rank);
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  Rank& rank_;
  VirtualDevice::State device_;
  DeviceWork work_;
  Ledger::Sums ledger_;
  FlopCounter flops_;
};

}  // namespace frugal
