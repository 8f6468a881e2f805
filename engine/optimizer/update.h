#pragma once
#include <array>
#include <functional>

#include "engine/optimizer/flat_parameters.h"
#include "engine/optimizer/train_config.h"

namespace frugal::engine {

/// State of consecutive weights between an optimizer's steps: on the device, or where the run
/// offloads it, in the host's memory.
class OptimizerState {
 public:
  /// State of some elements, on the device. Views are empty where there is none.
  struct Part {
    int64_t begin = 0, count = 0;
    View master, moment, second_moment;
  };

  OptimizerState() = default;
  /// Allocates so many moments, zero, of RunConfig::state_type(), and with `master` a copy of the
  /// weights [elements] in accumulation type. `pieces`: of the weights, where a program allocates
  /// one by one. Throws InputError where nothing of this is there to be offloaded.
  OptimizerState(Rank& rank, const View& weights, int moments, bool master,
                 const Pieces& pieces = {});
  bool empty() const { return elements_ == 0; }

  /// Calls `update` with all elements, which it may change: at once where they are on the device;
  /// otherwise part by part, each of which comes to the device for it and goes back.
  void update(const RankAt& at, const std::function<void(const Part&)>& update) const {
    for_each_part(at, true, true, update);
  }
  /// Calls `reader` likewise, which changes none of them (WeightUpdate::keeps_state).
  void read(const RankAt& at, const std::function<void(const Part&)>& reader) const {
    for_each_part(at, true, false, reader);
  }
  const Tensor& master() const { return kept_[0]; }
  const Tensor& moment() const { return kept_[1]; }
  const Tensor& second_moment() const { return kept_[2]; }

 private:
  /// `known`: there is something in it; `changes`: it goes back.
  void for_each_part(const RankAt& at, bool known, bool changes,
                     const std::function<void(const Part&)>& visit) const;

  int64_t elements_ = 0;
  std::array<Tensor, 3> kept_;  // master weights, moments
};

/// Updates a rank's weights from whole gradients: clips, and steps with moments, and with master
/// weights where weights are narrower than their gradients or predicted.
class Update {
 public:
  /// Allocates the kind's state, and copies master weights from `weights`, the block of the
  /// parameters, or where replicas divide it, this rank's parts. Throws InputError where weights
  /// are predicted and the state is offloaded.
  Update(Rank& rank, const FlatParameters& parameters, const OptimizerOptions& options,
         const Tensor& weights);

  /// Squared norm ‖gradient‖² of this rank's stage, or of the whole model, replicated and tied
  /// parameters counted once: [1], f64. Stages meet for that of the model.
  Tensor squared_norm_of_stage() const;
  Tensor squared_norm() const;
  /// Norm of these squares: NaN on a device without values. Throws WrongNumbers when it is not
  /// finite and no rank is absent.
  double norm_of(const Tensor& squares) const;
  double norm_of(double squares) const;

  /// Steps all groups. `squared_norm`: of all that is clipped together, [1] in f64, which the host
  /// need not know; empty: nothing is clipped. If it is not finite and the run is whole, all stays
  /// as it is. Parameters outside the block are updated in place. `gather`: gathers the weights
  /// that replicas have divided. Throws std::logic_error as begin().
  void apply(const OptimizerOptions& options, const View& squared_norm,
             const WeightBlocks& blocks = {}, bool gather = true);
  /// Writes the weights that apply() will make if nothing is clipped, and keeps what it steps from:
  /// with has_masters() weights may be written in place, others must not.
  void write_ahead(const OptimizerOptions& options, const WeightBlocks& blocks);

  // A step group by group:

  /// Begins it. Throws std::logic_error for another kind or prediction than the constructor's.
  void begin(const OptimizerOptions& options);
  /// Allocates a group's state if it has none (OptimizerChoices::late_state).
  void make_state(const ParameterGroup& group, const Tensor& weights);
  /// Steps a group that has state.
  void apply(const RankAt& at, const ParameterGroup& group, const View& gradient,
             const OptimizerOptions& options, const View& squared_norm,
             const WeightBlocks& blocks) const;
  /// Announces that a group's moments are about to be stepped.
  void announce_step(const RankAt& at, const ParameterGroup& group, Extras& extras) const;

  bool has_masters() const { return rank_.config.has_masters() || predicts(); }
  bool predicts() const { return prediction_ != 0; }
  /// Writes the newest weights without prediction to a block of weights (ParameterStore).
  void write_exact(const Tensor& block) const;

  /// State of a slice; views are empty where there is none.
  struct SliceState {
    ParameterSlice slice;
    View master, moment, second_moment;
  };
  std::vector<SliceState> state() const;
  /// Continues after this many steps, on which bias corrections depend.
  void resume(int64_t steps) { steps_ = steps; }

 private:
  const OptimizerState& state_of(const ParameterGroup& group) const;
  WeightUpdate update_of(const ParameterGroup& group, const View& gradient,
                         const OptimizerOptions& options, const WeightBlocks& blocks) const;
  /// Updates this part of `whole`. `step`: its number, from 1.
  static void run(const RankAt& at, const WeightUpdate& whole, const OptimizerOptions& options,
                  int64_t step, const OptimizerState::Part& part);

  Rank& rank_;
  const FlatParameters& parameters_;
  OptimizerKind kind_;
  double prediction_;
  std::vector<OptimizerState> states_;    // of each group
  std::vector<Tensor> narrow_gradients_;  // beside the gradients, where a program has both
  int64_t steps_ = 0;
};

}  // namespace frugal::engine
