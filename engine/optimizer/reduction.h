#pragma once
#include <map>
#include <set>

#include "engine/optimizer/flat_parameters.h"

namespace frugal::engine {

/// Sums of a stage's gradients over replicas that begin in a batch's last backward passes
/// (RunConfig::overlaps_sums()). A bucket is as many modules of a chunk, one behind the other, as
/// RunConfig::bucket_elements() asks for: gradients that lie next to each other in it, or where
/// replicas divide the optimizer's state, those of a ParameterUnit, are one sum. These begin when
/// all of the bucket are complete, while the passes compute the others. Replicas begin them in the
/// same order.
///
/// Only the first sum of a step overlaps: over the replicas, or where there is one, over the ranks
/// that share its sequences. The others follow in the step.
class GradientBuckets {
 public:
  /// No buckets: no pass begins a sum.
  GradientBuckets() = default;
  /// `completed`: Gpt::completed() of each chunk of the stage. The parameters outlive the buckets.
  GradientBuckets(const Rank& rank, const std::vector<std::vector<ParameterList>>& completed);

  /// Called when the last backward pass of a batch through a chunk has completed these gradients.
  void complete(const RankAt& at, int chunk, const ParameterList& gradients);
  /// Completes all gradients that the chunk adds to.
  void complete(const RankAt& at, int chunk);
  /// True if a pass has begun sums that finish() has not waited for.
  bool begun() const { return begun_; }
  /// Waits for the sums over this group. False: no pass has begun any. Throws std::logic_error
  /// where gradients are incomplete.
  bool finish(Rank& rank, const Communicator& group);

 private:
  struct Stretch {
    ParameterList parameters{};  // the last one in memory first
    std::shared_ptr<ParameterUnit> unit{};
    Tensor narrow{};  // what is summed with RunConfig::narrow_reduction
    Pending sum{};    // behind its memory, so that it ends before that goes
  };
  struct Bucket {
    std::vector<Stretch> stretches{};
    size_t parameters = 0, incomplete = 0;
  };
  /// A gradient, with the chunks that add to it and those of them that still will in this batch.
  struct Part {
    size_t bucket = 0;
    std::set<int> chunks{}, missing{};
  };

  /// Adds a parameter to the last bucket, or to that with the rest of its unit.
  void add(const Rank& rank, Parameter& p);
  View gradients_of(const Stretch& stretch) const;
  /// Elements of a stretch whose sum this rank has in the end.
  View summed(const Stretch& stretch, const View& all) const;
  void begin(Rank& rank, Stretch& stretch);
  void finish(Rank& rank, Stretch& stretch) const;

  Communicator* group_ = nullptr;
  bool narrow_ = false;
  std::vector<Bucket> buckets_;  // in the order in which passes complete them
  std::map<const Parameter*, Part> parts_;
  std::vector<ParameterList> of_chunks_;
  bool begun_ = false;
};

/// Sums of a rank's gradients over ranks that have the same weights, in a step or behind passes.
class Reduction {
 public:
  Reduction(Rank& rank, FlatParameters& parameters) : rank_(rank), parameters_(parameters) {}

  /// Has passes begin sums over replicas, for which the step waits.
  void sum_behind_passes(GradientBuckets buckets) { buckets_ = std::move(buckets); }
  GradientBuckets& buckets() { return buckets_; }
  /// Adds a rank's part of a unit's gradients, which ranks that divide it have summed, to those
  /// before it. `last`: of the step; ranks that have the same part then begin to sum it.
  void add(const RankAt& at, const ParameterUnit& unit, const Tensor& gradients, bool last);
  /// Waits for sums that add() began.
  void await();

  /// Sums over replicas, unless backward passes have done so.
  void sum_over_replicas();
  /// Sums gradients that cover a part of the sequence: over ranks that share it, and
  /// tensor-parallel ranks for Parameter::gradient_is_partial.
  void sum_partial();
  /// Sums over the tensor-parallel group what is partial in a group with these gradients.
  void sum_partial(const ParameterGroup& group, const View& gradients);
  /// Sums what sum_partial() does and a tied table, for which the pipeline's ends meet.
  void complete();

 private:
  /// Copies gradients to another block, as a program does (OptimizerChoices).
  void flatten() const;
  void sum_over(Communicator& group);
  /// Sums in the weights' type, which is narrower.
  void sum_narrowed(Communicator& replicas);
  /// Sums so that a rank has its parts alone: the rest of a unit's gradients is of no use to it.
  void reduce_to_parts();
  void begin_partial(const ParameterGroup& group, const View& gradients,
                     std::vector<Pending>& sums) const;

  Rank& rank_;
  FlatParameters& parameters_;
  GradientBuckets buckets_;
  std::vector<Pending> sums_;  // that add() began
};

/// Completes gradients that one replica has alone, parameter by parameter: those that cover a part
/// of the sequence, and those of a tied table.
void complete_gradients(Rank& rank, const ParameterList& parameters);

}  // namespace frugal::engine
