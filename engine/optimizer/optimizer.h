#pragma once
#include <optional>

#include "engine/optimizer/gradient_buckets.h"
#include "engine/optimizer/optimizer_state.h"
#include "engine/optimizer/train_config.h"

namespace frugal::engine {

/// Blocks of all weights of a rank (ParameterStore), of which a step computes the new weights from
/// those of one in another, which may be the same. Empty: from the parameters' own in place.
struct WeightBlocks {
  Tensor from, to;
};

/// Updates one rank's parameters, with moments, and master weights where weights are narrower, in
/// accumulation type.
class Optimizer {
 public:
  /// Allocates the kind's state, and takes the master weights from the parameters' own: there are
  /// some where weights are narrower than their gradients, and where weights are predicted. Throws
  /// InputError where those that are predicted are to be offloaded, and where gradients that step
  /// in backward are to be clipped, by a norm that is not known then. `weights`: the block that the
  /// parameters are in, or where replicas divide it (Shard::weights), this rank's parts.
  Optimizer(Rank& rank, ParameterList parameters, const OptimizerOptions& options,
            const Tensor& weights = {});

  /// Where a step's first products overwrite (RunConfig::overwrite_gradients), weights' gradients
  /// are fresh from then on.
  void clear_gradients(Rank& rank);
  /// Where a run steps in backward: gives back the memory of gradients.
  static void drop_gradients(const ParameterList& parameters);
  /// The same after a step of these parameters alone, whose gradients no other pass adds to. When
  /// all have been stepped, step() ends the step. `options` do not clip.
  void step_in_backward(const RankAt& at, const ParameterList& parameters,
                        const OptimizerOptions& options);
  /// The same of this rank's part of a unit, whose gradients replicas have summed. `weights`: the
  /// block of the constructor's.
  void step_in_backward(const RankAt& at, const ParameterUnit& unit, const View& gradients,
                        const OptimizerOptions& options, const Tensor& weights);
  /// Adds a rank's part of a unit's gradients, which ranks that divide it have summed, to those
  /// before it. `last`: of the step; then those that have the same part begin to sum it.
  void add_gradients(const RankAt& at, const ParameterUnit& unit, const Tensor& gradients,
                     bool last);
  /// Lets passes begin sums over replicas, for which the step waits.
  void sum_behind_passes(GradientBuckets buckets) { buckets_ = std::move(buckets); }
  GradientBuckets& buckets() { return buckets_; }
  /// Whether it has gradients of that unit, of this step.
  bool has_gradients(const ParameterUnit& unit) const {
    return !gradients_.empty() || !gradients_of(unit).empty();
  }
  /// Makes the gradients whole, clips by the norm of the whole model's, updates. Returns the norm
  /// before clipping; NaN on a device without values and where ranks are absent. Throws
  /// WrongNumbers when it is not finite otherwise. options.kind and options.prediction are the
  /// constructor's.
  ///
  /// All stages of a pipeline wait for each other here. Where its schedule has no flush and nothing
  /// is clipped, none does: there is no norm (NaN), and a tied table's gradients are on their way
  /// to each other when this returns. It is updated by finish().
  double step(Rank& rank, const OptimizerOptions& options, const WeightBlocks& blocks = {});
  /// Waits for the gradients that finish() needs.
  void await_gradients();
  /// Updates what the last step has left. To be called before its weights are used or stepped from.
  void finish(const RankAt& at);
  bool predicts() const { return prediction_ != 0; }
  /// The newest weights as they are, where those that passes read are predicted: to a block of
  /// weights (ParameterStore).
  void write_exact(Rank& rank, const Tensor& block);

  /// Elements of a parameter that this rank steps, of its own: all, where replicas do not divide
  /// them.
  struct Slice {
    Parameter* parameter;
    int64_t begin = 0, count = 0;
  };
  /// What it keeps of them from step to step; empty views of what there is not.
  struct Kept {
    Slice slice;
    View master, moment, second_moment;
  };
  std::vector<Kept> kept() const;
  /// Those of a parameter that this rank steps.
  static Slice slice_of(const Rank& rank, Parameter& p);
  /// Steps so far, of which bias corrections and messages depend.
  void go_on_from(int64_t step) { steps_ = step; }

  /// Makes the gradients of one replica whole, which it has alone: those that cover a part of the
  /// sequence (all, where ranks share it, and Parameter::gradient_is_partial), and those of a tied
  /// table.
  static void complete_gradients(Rank& rank, const ParameterList& parameters);

  // The two parts of step(), where weights do not step in backward:

  /// Makes the gradients whole, for which nobody of another stage but a tied table's is waited for.
  void sum_gradients(Rank& rank, const OptimizerOptions& options);
  /// The rest of step(), behind that.
  double step_with_sums(Rank& rank, const OptimizerOptions& options, const WeightBlocks& blocks);

  // What a step consists of, for those who clip by the norm of more parameters than these:

  /// Completes the gradients of what this rank steps.
  void complete_gradients(Rank& rank);
  /// ‖gradient‖² of all parameters of the model, replicated and tied ones counted once: [1], f64.
  Tensor squared_norm(Rank& rank) const;
  /// Squared norm of this rank's stage alone.
  Tensor squared_norm_of_stage(Rank& rank) const;
  /// Its root, to be asked for behind the step: NaN on a device without values; throws as step().
  double norm_of(Rank& rank, const Tensor& squares) const;
  double norm_of(const Rank& rank, double squares) const;
  /// The update, where the gradient of all that is clipped together has this squared norm, [1] in
  /// f64, which the host need not know; empty: nothing is clipped. Where it is not finite and the
  /// run is whole, all stays as it is. Parameters without a place in a block are updated in place.
  /// Throws std::logic_error for other options than it was made for. `gather`: what replicas have
  /// divided; not where they have all of it.
  void update(const RankAt& at, const OptimizerOptions& options, const View& squared_norm,
              const WeightBlocks& blocks = {}, bool gather = true);
  /// Writes the weights that update() will make where nothing is clipped, and leaves what it steps
  /// from as it is: with has_masters() weights may be written in place, others must not.
  void write_ahead(const RankAt& at, const OptimizerOptions& options, const WeightBlocks& blocks);
  bool has_masters(const RunConfig& config) const;

 private:
  /// Parameters that lie one behind the other and are treated alike: a whole model, usually. What
  /// lies between two of them is treated as they are.
  struct Group {
    std::vector<Slice> slices{};
    int64_t offset = -1;  // of the first element in the block of parameters; −1 for none
    int64_t elements = 0;
    bool counted = true;       // in this rank's part of the gradient's norm
    bool tied = false;         // Parameter::tied
    OptimizerState state{};    // the kind decides what there is
    Tensor narrow_gradient{};  // beside the gradient, where a program has both

    const Parameter& first() const { return *slices.front().parameter; }
    const ParameterUnit* unit() const { return first().unit.get(); }
    ParameterList members() const;
    /// Whether this is what follows it in memory.
    bool goes_on_with(const RankAt& at, const Slice& slice, bool counted) const;
    void add(const Slice& slice);
  };
  /// What replicas divide together.
  struct Unit {
    std::shared_ptr<ParameterUnit> unit;
    const Parameter* first;  // with which it begins
    Tensor gradients{};      // this rank's part, where it has none until a pass has summed it
  };
  /// A tied table's update that waits for the other end of the pipeline.
  struct Late {
    const Group* group;
    Tensor gradient;  // a copy: the next batch adds to the parameter's own
    Pending sum;
    OptimizerOptions options;
    WeightBlocks blocks;
  };

  void make_groups(Rank& rank, const Tensor& weights);
  /// Whether a program forgets to step it (Keeping::unstepped_head).
  static bool is_forgotten(const Rank& rank, const Parameter& p);
  /// This rank's part of a unit's gradients where it has none between steps: empty until a pass has
  /// summed them.
  const Tensor& gradients_of(const ParameterUnit& unit) const;
  /// A group's elements in a block that begins with the rank's part of a unit, or of all units.
  View in_part(const Group& group, const View& part, bool of_all) const;
  /// Views of all elements of a group.
  View gradient_of(const Group& group) const;
  View weights_of(const Group& group, const Tensor& block) const;
  void make_fresh(Rank& rank);
  /// Those that nothing was added to.
  void clear_fresh(Rank& rank);
  OptimizerState new_state(Rank& rank, const Group& group, const Tensor& weights) const;
  /// Where it has none yet.
  void make_state(Rank& rank, Group& group, const Tensor& weights) const;
  void begin_step_in_backward(const RankAt& at, const OptimizerOptions& options);
  double end_step_in_backward(Rank& rank);
  /// Where a program does so (Keeping::flattened_gradients).
  void flatten_gradients(Rank& rank) const;
  void sum_partial_gradients(Rank& rank);
  /// The first gradients of a step, of a rank that has none before.
  static Tensor first_of(const RankAt& at, const Tensor& gradients);
  /// Waits for those that add_gradients() began.
  void await_sums();
  /// Begins the sums over replicas of a group with these gradients.
  static void sum_partial_gradients(Rank& rank, const Group& group, const View& gradients,
                                    std::vector<Pending>& sums);
  /// Sums gradients of the same weights for other tokens.
  void sum_over(Rank& rank, Communicator& replicas);
  /// Sums in the weights' type, which is narrower.
  void sum_narrowed(Rank& rank, Communicator& replicas);
  /// Over replicas, as the run has it.
  void sum_over_replicas(Rank& rank);
  /// Sums so that a rank keeps its parts alone.
  void reduce_to_parts(Rank& rank);
  /// Brings the parts of a block of weights together that replicas have written; of one unit, or of
  /// all.
  void gather_weights(Rank& rank, const Tensor& block, const ParameterUnit* only = nullptr) const;
  void begin_step(const OptimizerOptions& options);
  /// Where a program has it (Keeping::optimizer_intermediate).
  static void make_intermediate(const RankAt& at, const Group& group, std::vector<Tensor>& all);
  void update_without_waiting(Rank& rank, const OptimizerOptions& options,
                              const WeightBlocks& blocks);
  /// One group by this gradient, which is not clipped where there is no norm.
  void update(const RankAt& at, const Group& group, const View& gradient,
              const OptimizerOptions& options, const View& squared_norm,
              const WeightBlocks& blocks);
  WeightUpdate update_of(const Group& group, const View& gradient, const OptimizerOptions& options,
                         const WeightBlocks& blocks) const;
  /// Updates this part of `whole`. `step`: its number, from 1.
  static void run_update(const RankAt& at, const WeightUpdate& whole, const OptimizerOptions& o,
                         int64_t step, const OptimizerState::Part& part);

  ParameterList parameters_;
  OptimizerKind kind_;
  double prediction_;
  bool parts_of_weights_ = false;  // whether blocks of weights have this rank's parts alone
  int part_ = 0;                   // which of them, of each unit
  std::vector<Unit> units_;
  std::vector<Group> groups_;
  Tensor gradients_;           // this rank's parts of all units, where it has them between steps
  std::vector<Pending> sums_;  // of these, over those that have the same
  GradientBuckets buckets_;
  std::optional<Late> late_;
  Tensor squares_;  // [1] f64, of the gradients stepped in backward so far; empty between steps
  int64_t steps_ = 0;
};

}  // namespace frugal::engine
