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
    Noted(Rank& rank, RankReplay::Stretch stretch) : rank_(&rank), stretch_(std::move(stretch)) {}

    Rank* rank_;
    RankReplay::Stretch stretch_;
    bool complete_ = false;
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

}  // namespace frugal::engine
