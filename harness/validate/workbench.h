#pragma once
#include <memory>
#include <vector>

#include "harness/place/target.h"

namespace frugal::harness {

/// The place that a validation looks at, with one of its devices, and several as ranks.
class Workbench {
 public:
  Workbench(const Target& target, bool quick);

  const Target& target() const { return target_; }
  bool quick() const { return quick_; }
  bool on_gpu() const { return target_.kind() == DeviceKind::cuda; }
  /// The first device, without peers.
  Rank& rank() { return one_->rank(0); }
  /// First device with one kernel thread on the processor: what is short there is seldom disturbed,
  /// even where others keep the machine busy.
  Rank& core() { return core_ ? core_->rank(0) : rank(); }
  /// A rank of every device there is: one is right, and another may not be. The processor is one,
  /// and has this rank.
  std::vector<Rank*> devices(Rank& of_processor);
  /// How many ranks it has: its GPUs, or as many of the processor's kernel threads, at most 4.
  int ranks() const { return ranks_; }
  /// Each of them alone: a GPU, or kernel threads, on cores of their own where there are enough.
  /// Throws InputError.
  Cluster& cluster_of_ranks();
  /// Why there are not several; empty where there are.
  std::string why_no_ranks() const;

 private:
  const Target& target_;
  bool quick_;
  std::unique_ptr<Cluster> one_, core_, several_;
  int ranks_;
};

}  // namespace frugal::harness
