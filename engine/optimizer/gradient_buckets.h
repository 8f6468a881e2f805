#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Sums of a stage's gradients over replicas that begin in a batch's last backward passes
/// (RunConfig::overlap_grad_reduce). A bucket is gradients that lie next to each other, or where
/// replicas divide the optimizer's state, a ParameterUnit; its sum begins when all of them are
/// complete, while the passes compute the others. Replicas begin them in the same order.
///
/// A step that makes several sums begins the first one so: over the replicas, or where there is
/// one, over the ranks that share its sequences. The others follow in the step.
class GradientBuckets {
 public:
  /// No buckets, so that no pass begins a sum.
  GradientBuckets() = default;
  /// `completed`: of each chunk of the stage, Gpt::completed(). The parameters outlive the buckets.
  GradientBuckets(const Rank& rank, const std::vector<std::vector<ParameterList>>& completed);

  /// The last backward pass of a batch through a chunk has completed these gradients.
  void complete(const RankAt& at, int chunk, const ParameterList& gradients);
  /// Completes all gradients that the chunk adds to.
  void complete(const RankAt& at, int chunk);
  /// Whether a pass has begun sums that nobody has waited for.
  bool begun() const { return begun_; }
  /// Waits for the sums over this group. False: no pass has begun any. Throws std::logic_error
  /// where gradients are incomplete.
  bool finish(Rank& rank, const Communicator& group);

 private:
  struct Bucket {
    ParameterList parameters{};  // the last one in memory first
    std::shared_ptr<ParameterUnit> unit{};
    size_t incomplete = 0;  // parameters
    Tensor narrow{};        // what is summed with RunConfig::narrow_reduction
    Pending sum{};          // behind its memory, so that it ends before that goes
  };
  /// A gradient, with the chunks that add to it and those of them that still will in this batch.
  struct Part {
    size_t bucket = 0;
    std::set<int> chunks{}, missing{};
  };

  size_t bucket_for(const Rank& rank, const Parameter& p);
  View gradients_of(const Bucket& bucket) const;
  /// Elements of a bucket, those of which this rank has the sum in the end.
  View summed(const Bucket& bucket, const View& all) const;
  void begin(Rank& rank, Bucket& bucket);

  Communicator* group_ = nullptr;
  bool narrow_ = false;
  std::vector<Bucket> buckets_;  // in the order in which passes complete them
  std::map<const Parameter*, Part> parts_;
  std::vector<ParameterList> of_chunks_;
  bool begun_ = false;
};

}  // namespace frugal::engine
