#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "engine/model/parameter.h"
#include "engine/schedule/schedule.h"
#include "engine/train/rank_replay.h"

namespace frugal::engine {

/// What one rank's passes do to a virtual device is the same for every microbatch but for the
/// moment. So the first pass of a kind is made by the model's code, and noted; those after it do
/// what was noted, without the code (RankReplay).
///
/// A forward pass that was repeated leaves what it keeps for its backward pass in the ledger, but
/// there is no tensor of it. So the backward pass is to be repeated too, or the tensors be made
/// (Uncounted).
class PassMemo {
 public:
  /// Whatever distinguishes passes of one rank in one run.
  struct PassKey {
    ActionKind kind;
    int chunk;
    Recompute recompute;
    bool turns;               ///< StageExecutor::Flight
    std::vector<bool> fresh;  ///< Parameter::fresh of the chunk's, before the pass
    auto operator<=>(const PassKey&) const = default;
  };
  /// Keys of one pass, or of two that are made together.
  using Key = std::vector<PassKey>;
  /// Where a pass finds what it works on and leaves what it makes, which belongs to its microbatch;
  /// null where it has neither.
  struct Ends {
    Tensor* input;
    Tensor* output;
    int microbatch;
  };
  /// A pass, or two together, without their microbatches.
  class Noted {
   public:
    /// Whether it can be repeated now: not where it cannot be known what it does, nor where it
    /// would run out of memory, which the code reports.
    bool repeatable() const;
    /// Consumes what the passes work on, and leaves what they make; either may be empty. Gradients
    /// of these parameters are as fresh as the passes have left them.
    void repeat(const std::vector<Ends>& ends, const ParameterList& parameters) const;

   private:
    friend class PassMemo;
    Noted(Rank& rank, RankReplay::Stretch stretch) : rank_(&rank), stretch_(std::move(stretch)) {}

    Rank* rank_;
    RankReplay::Stretch stretch_;
    bool complete_ = false;
    struct Output {
      Ledger::Entry entry;
      View view;
    };
    std::vector<Output> outputs_;  // of each pass; empty where it makes none
    std::vector<bool> fresh_;
  };

  explicit PassMemo(Rank& rank) : rank_(rank) {}

  /// Whether passes of this rank may be noted where nobody looks at what happens within them: on a
  /// virtual device, where nothing goes on from one pass to another.
  static bool possible(const Rank& rank);
  /// Null: has not been made.
  const Noted* find(const Key& key) const;
  /// Makes passes and notes what they do. Throws what they throw.
  void note(const Key& key, const std::function<void()>& make, const std::vector<Ends>& ends,
            const ParameterList& parameters);

 private:
  Rank& rank_;
  std::map<Key, Noted> passes_;
};

/// Parameter::fresh of each.
std::vector<bool> fresh_of(const ParameterList& parameters);
void make_fresh(const ParameterList& parameters, const std::vector<bool>& fresh);

}  // namespace frugal::engine
