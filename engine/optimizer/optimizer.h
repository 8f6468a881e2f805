#pragma once
#include <optional>

#include "engine/optimizer/reduction.h"
#include "engine/optimizer/update.h"

namespace frugal::engine {

/// A rank's optimizer: its parameters, the sums of their gradients, and their update, in the order
/// of a step.
class Optimizer {
 public:
  /// `weights`: as Update. Throws InputError as it, and for gradients that step in backward and are
  /// to be clipped by a norm that is not known then.
  Optimizer(Rank& rank, ParameterList parameters, const OptimizerOptions& options,
            const Tensor& weights = {});
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  FlatParameters& parameters() { return parameters_; }
  Reduction& reduction() { return reduction_; }
  Update& update() { return update_; }

  /// Clears gradients for the next step (FlatParameters::clear_gradients).
  void clear_gradients();
  /// Makes the gradients whole, clips by the norm of the whole model's, updates. Returns the norm
  /// before clipping; NaN on a device without values and where ranks are absent. Throws
  /// WrongNumbers if it is not finite otherwise. options.kind and options.prediction are the
  /// constructor's.
  ///
  /// All stages of a pipeline meet here, unless its schedule has no flush and nothing is clipped:
  /// then there is no norm (NaN), and the gradients of a tied table are under way between the
  /// pipeline's ends when this returns. finish() updates it.
  double step(const OptimizerOptions& options, const WeightBlocks& blocks = {});
  /// First half of step(): makes the gradients whole, which waits for no other stage but a tied
  /// table's. Not where weights step in backward.
  void sum_gradients(const OptimizerOptions& options);
  /// Second half of step().
  double step_with_sums(const OptimizerOptions& options, const WeightBlocks& blocks);
  /// Waits for the gradients that finish() needs.
  void await_gradients();
  /// Updates what the last step has left, before its weights are used or stepped from.
  void finish(const RankAt& at);
  /// Writes the newest weights without prediction to a block of weights (ParameterStore).
  void write_exact(const Tensor& block);

  // Steps in backward passes, with options that do not clip; step() ends them:

  /// Sums and steps parameters whose gradients no other pass adds to, and drops these.
  void step_in_backward(const RankAt& at, const ParameterList& parameters,
                        const OptimizerOptions& options);
  /// Steps this rank's part of a unit, whose gradients replicas have summed. `weights`: the block
  /// of the constructor's.
  void step_in_backward(const RankAt& at, const ParameterUnit& unit, const View& gradients,
                        const OptimizerOptions& options, const Tensor& weights);

 private:
  /// A tied table's update that waits for the other end of the pipeline.
  struct Late {
    const ParameterGroup* group;
    Tensor gradient;  // a copy: the next batch adds to the parameter's own
    Pending sum;
    OptimizerOptions options;
    WeightBlocks blocks;
  };

  bool meets_stages(const OptimizerOptions& options) const;
  void begin_in_backward(const RankAt& at, const OptimizerOptions& options);
  void step_in_backward(const RankAt& at, const ParameterGroup& group, const View& gradient,
                        const OptimizerOptions& options, const WeightBlocks& blocks);
  double end_in_backward();
  void update_without_meeting(const OptimizerOptions& options, const WeightBlocks& blocks);

  Rank& rank_;
  FlatParameters parameters_;
  Reduction reduction_;
  Update update_;
  std::optional<Late> late_;
  Tensor squares_;  // [1] f64, of the gradients stepped in backward so far; empty between steps
};

/// Sums gradients over replicas of which each keeps a part (RunConfig::reduces_in_backward), in the
/// backward pass that computes them: those of one unit while the next one's are computed.
class BackwardReduction {
 public:
  /// Gives sums to the optimizer: to add, `last` as for Reduction::add(), or where the run steps in
  /// backward, to step with `options`; null: they are dropped. `weights`: Optimizer's.
  BackwardReduction(Optimizer& optimizer, bool last, const OptimizerOptions* options = nullptr,
                    const Tensor& weights = {})
      : optimizer_(optimizer), last_(last), options_(options), weights_(weights) {}

  /// Starts to sum gradients that are complete: all of one unit or of several.
  void add(const RankAt& at, const ParameterList& complete);
  /// Waits until all that were added are summed and given to the optimizer.
  void finish(const RankAt& at);

 private:
  struct InFlight {
    std::shared_ptr<ParameterUnit> unit;
    Tensor all, part;  // the part within all, of a program that does not keep it
    Pending sum;       // last, so that it ends before the memory goes
  };

  /// Copies gradients that a program has apart into those of their units.
  static void copy_in(const RankAt& at, const ParameterList& complete);
  void start(const RankAt& at, const std::shared_ptr<ParameterUnit>& unit);

  Optimizer& optimizer_;
  const bool last_;
  const OptimizerOptions* options_;
  const Tensor weights_;
  std::optional<InFlight> in_flight_;
};

}  // namespace frugal::engine
