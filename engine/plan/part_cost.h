#pragma once
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/model/part.h"
#include "engine/optimizer/optimizer.h"
#include "engine/options/fields.h"
#include "engine/schedule/clock.h"
#include "kernels/virtual/machine.h"

namespace frugal::engine {

/// Costs of a part of a model for one rank: seconds and bytes, as the program takes them when it
/// executes the part alone on a virtual device.
struct PartCost {
  /// Passes of one microbatch; recomputation is part of backward.
  PassCost forward, backward;
  PassCost input_backward, weight_backward;  ///< where they are passes of their own
  /// The optimizer's, without what it waits for; where replicas divide something, with that:
  /// before stages meet in a step, and from then on.
  double sums = 0, step = 0;
  // Where steps are validated later (RunConfig::validates_later()): the squared norm of the
  // gradients, weights that are written ahead, and the step behind them.
  double norm = 0, ahead = 0, validated_step = 0;
  double late_step = 0;      ///< of a tied table, once the ends have summed its gradients
  double other_version = 0;  ///< of a pass of another version than the one before
  double host_of_step = 0;   ///< in which the host gives the device sums and a step

  int64_t weights = 0;    ///< of one version
  int64_t gradients = 0;  ///< what replicas sum
  int64_t fixed = 0;      ///< held between batches, with one version of the weights
  int64_t kept = 0;       ///< of a microbatch between its two passes
  int64_t owed = 0;       ///< between its backward passes of inputs and of weights
  int64_t fixed_on_host = 0, kept_on_host = 0;  ///< the same, offloaded
  // Above what is held before the microbatch's input comes; what it keeps is included.
  int64_t forward_peak = 0, backward_peak = 0;
  int64_t input_backward_peak = 0, weight_backward_peak = 0;
};
inline constexpr std::array<PassCost PartCost::*, 4> all_passes = {
    &PartCost::forward, &PartCost::backward, &PartCost::input_backward, &PartCost::weight_backward};

/// Seconds of a part's passes, by ActionKind, as all_passes has them.
using PassSeconds = std::array<double, all_passes.size()>;

/// Cost of a forward pass through one part of a stage, made together with a backward pass of
/// another microbatch through another part (Action::beside_next).
struct PairCost {
  PassCost pass;
  int64_t peak = 0;     ///< bytes, above what is held before their inputs come
  int64_t on_host = 0;  ///< the same of what is offloaded
};

/// Cost of a module, or of modules, of which a backward pass completes all gradients at once.
struct ModuleCost {
  double seconds = 0;     ///< of the pass, behind the module before it
  int64_t gradients = 0;  ///< bytes
};

/// Seconds that the passes of a microbatch through a part take at least, of those that are made
/// alone, whichever of them the schedule splits.
double least_passes(const ScheduleKind& kind, const PartCost& part);

/// a + n · b, member by member.
PartCost plus(const PartCost& a, int64_t n, const PartCost& b);

/// Configuration of the one rank on which parts of run.model are executed: as `run`, without a
/// pipeline, and without replicas where these divide nothing. Runs of which it is the same have the
/// same PartCosts.
RunConfig lone_rank_of(const RunConfig& run);

/// Costs of parts of run.model of any number of layers, executed on lone_rank_of(run). Its schedule
/// decides how the optimizer steps, and whether weights' gradients have a pass of their own.
///
/// Few layers are executed, and each layer more of a kind costs the same. That is so because layers
/// of a kind are equal, and each keeps the same. The first two are unlike the others where weights
/// are gathered for a layer, or its gradients divided behind it, while those of the layers beside
/// it are there. There are several kinds where every so many layers have a window
/// (ModelConfig::window_period).
///
/// Each part is executed when it is first asked for; several threads may ask. Where layers are
/// recomputed otherwise than those behind them (RunConfig::recompute_layers, recompute_group), or
/// offloaded, it is executed as it is.
///
/// A peak grows by what each layer more keeps where it is a layer's. It may be the embedding's or
/// the head's instead, and grow by less, until the layers' own is higher; then what is said is too
/// large by a hidden state at most, and never too small.
class PartCosts {
 public:
  PartCosts(const RunConfig& run, const OptimizerOptions& optimizer, const Machine& machine);

  PartCost of(const ModelPart& part) const;
  /// True if two parts cost the same.
  bool alike(const ModelPart& a, const ModelPart& b) const { return key_of(a) == key_of(b); }
  /// Cost without a correction of peaks at the embedding or the head; executes less than of().
  PartCost without_peaks(const ModelPart& part) const;
  /// Cost for microbatches whose backward pass is the next one behind their forward pass. It
  /// differs from of() only where activations are offloaded.
  PartCost turning(const ModelPart& part) const;
  /// Cost of a stage's two chunks, where the forward pass of one is made together with the other's
  /// backward pass. Both are executed as they are.
  const PairCost& together(const std::vector<ModelPart>& chunks, int forward_chunk) const;
  /// Puts what was measured in place of what passes of such a part take on the machine, the host's
  /// time and copies of other versions included. Before any other call that this concerns.
  void put_passes(const ModelPart& part, const PassSeconds& seconds);
  /// Puts a step's time in, with what its ranks divide summed in it.
  void put_step(const ModelPart& part, double seconds);
  /// Modules of a part in the order in which a pass of this kind completes their gradients: the
  /// head, layers, the embedding.
  std::vector<ModuleCost> modules(const ModelPart& part, const PartCost& cost,
                                  PassCost PartCost::*pass) const;
  /// True if steps were measured, with all that their ranks wait for in them.
  bool measured_steps() const { return !measured_steps_.empty(); }
  /// Costs that a layer more adds; where there are kinds of them, one of the first kind.
  PartCost layer() const { return next(0); }

 private:
  /// Cost of a part that begins with a layer of the same kind.
  const PartCost& executed(ModelPart part, bool turns = false) const;
  /// Costs that the last layer of the largest of them adds, where they begin with such a layer.
  PartCost next(int64_t layer) const;
  /// Key that parts have in common which are alike.
  using Key = std::tuple<int64_t, int64_t, bool, bool>;
  Key key_of(const ModelPart& part) const {
    return {part.first_layer % kinds_, part.layers, part.first, part.last};
  }
  void put_measured(const ModelPart& part, PartCost& cost) const;
  /// Corrects peaks that the ends of a part have, not its layers.
  void correct_peaks(const ModelPart& part, PartCost& cost) const;

  const RunConfig run_;  // of the lone rank
  OptimizerOptions optimizer_;
  const Machine machine_;
  int64_t kinds_;             // of layers
  int64_t most_;              // layers of a part that are executed
  int64_t hidden_state_ = 0;  // bytes
  std::map<Key, PassSeconds> measured_passes_;
  std::map<Key, double> measured_steps_;
  mutable std::mutex executing_;  ///< guards what follows
  mutable std::map<std::tuple<int64_t, int64_t, bool, bool, bool>, PartCost> executed_;
  mutable std::map<std::vector<int64_t>, PairCost> together_;
};

/// Machine with as much memory as it takes, and without the numbers of its file as they stand
/// there, of which no device needs a copy.
Machine without_limits(Machine machine);

/// Options of the optimizer for a schedule: no clipping, for which stages wait for each other,
/// where the schedule has no flush.
OptimizerOptions planned_optimizer(const ScheduleKind& kind);

/// Bytes of the gradients of a rank's table, of a model that has one alone.
int64_t tied_table_bytes(const RunConfig& run);

/// Bytes of what replicas sum of such gradients.
double summed_bytes(const RunConfig& run, int64_t gradients);

/// True if some of a run's passes are made together.
bool makes_together(const RunConfig& run);

/// Costs of parts for all configurations of a search: executed once for all that have the same lone
/// rank. Several threads may ask.
class PlanCosts {
 public:
  explicit PlanCosts(const Machine& machine) : machine_(without_limits(machine)) {}

  const PartCosts& of(const RunConfig& run) {
    RunConfig rank = lone_rank_of(run);
    const std::scoped_lock lock(finding_);
    return costs_.try_emplace(std::move(rank), run, planned_optimizer(run.schedule), machine_)
        .first->second;
  }

 private:
  const Machine machine_;
  std::mutex finding_;  ///< guards what follows
  std::unordered_map<RunConfig, PartCosts, HashOfFields> costs_;
};

}  // namespace frugal::engine
