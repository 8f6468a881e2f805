#pragma once
#include <functional>
#include <map>
#include <vector>

#include "engine/model/parameter.h"
#include "engine/schedule/schedule.h"
#include "kernels/virtual/replay.h"

namespace frugal::engine {

/// A memo of passes on a virtual device: what a rank's passes do to it is the same for every
/// microbatch but for the moment. The first pass of a kind is made by the model's code, and what it
/// issues is noted; later ones repeat that without the code. All is the same to the bit: the device
/// computes its clocks anew from what was issued, FLOPs are added one by one, and bytes are
/// integers.
///
/// A forward pass that was repeated leaves what it keeps for its backward pass in the ledger, but
/// there is no tensor of it. So its backward pass is repeated too, or the tensors are made
/// (Uncounted).
class PassMemo {
 public:
  /// Properties that distinguish passes of one rank in one run.
  struct PassKey {
    ActionKind kind;
    int chunk;
    Recompute recompute;
    bool turns;               ///< Flight::turns
    std::vector<bool> fresh;  ///< Parameter::fresh of the chunk's, before the pass
    auto operator<=>(const PassKey&) const = default;
  };
  /// Keys of one pass, or of two that are made together.
  using Key = std::vector<PassKey>;
  /// Places of a pass's operand and of its result, which belong to its microbatch; null if it has
  /// none.
  struct Ends {
    Tensor* input;
    Tensor* output;
    int microbatch;
  };
  /// A pass, or two together, without their microbatches.
  class Noted {
   public:
    /// False if it cannot be known what the pass does, or if it would run out of memory, which the
    /// code reports.
    bool repeatable() const;
    /// Consumes what the passes work on, and leaves what they make; either may be empty. Gradients
    /// of these parameters are as fresh as the passes have left them.
    void repeat(const std::vector<Ends>& ends, const ParameterList& parameters) const;

   private:
    friend class PassMemo;
    struct Output {
      Ledger::Entry entry;
      View view;
    };

    explicit Noted(Rank& rank) : rank_(&rank) {}

    Rank* rank_;
    Replay::Stretch device_;
    Ledger::Sums memory_;
    FlopCounter flops_;
    bool complete_ = false;
    std::vector<Output> outputs_;  // of each pass; empty where it makes none
    std::vector<bool> fresh_;
  };

  explicit PassMemo(Rank& rank) : rank_(rank) {}

  /// True if passes of this rank may be noted where nobody looks at what happens within them: on a
  /// virtual device, where nothing goes on from one pass to another.
  static bool possible(const Rank& rank);
  /// Null: has not been made.
  const Noted* find(const Key& key) const;
  /// Makes passes and notes what they do. Throws what they throw.
  void note(const Key& key, const std::function<void()>& make, const std::vector<Ends>& ends,
            const ParameterList& parameters);

 private:
  class Noting;

  Rank& rank_;
  std::map<Key, Noted> passes_;
};

/// Parameter::fresh of each.
std::vector<bool> fresh_of(const ParameterList& parameters);
void restore_fresh(const ParameterList& parameters, const std::vector<bool>& fresh);

/// Discards what a rank counts while this lives, on a device that can repeat: clocks, work, bytes
/// and FLOPs are then what they were before. What it allocates and keeps was counted before.
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
