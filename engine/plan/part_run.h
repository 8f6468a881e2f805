#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/model/gpt.h"
#include "engine/optimizer/weight_versions.h"
#include "engine/plan/part_cost.h"

namespace frugal::engine {

/// A part of a model on one rank, or those of the chunks of a stage. It does what StageExecutor
/// does, on a virtual device, and observes what each piece of that costs.
///
/// The host is ahead of the device, as in a whole run: a pass begins when the one before it ends,
/// and what goes on beside passes goes on beside the next one.
class PartRun {
 public:
  /// `launch`: seconds in which the host gives the device an operation.
  PartRun(Rank& rank, const OptimizerOptions& options, const std::vector<ModelPart>& parts,
          double launch);

  /// `turns`: of microbatches whose backward pass is the next one behind their forward pass.
  PartCost run(bool turns);

  /// As StageExecutor makes a microbatch's forward pass through a chunk together with another's
  /// backward pass through the other one. What both have made stays until both have ended.
  PairCost run_together(size_t forward_chunk);

 private:
  using Models = std::vector<std::unique_ptr<Gpt>>;

  /// From now on the host is further ahead than it takes to give the device all that follows.
  void run_ahead();
  /// Passes before each of which the host waits until the device has nothing to do.
  PartCost wait();
  /// Passes of which each waits for a copy to the host that goes on for long: for its `grace`.
  PartCost copy_before_passes();
  /// Lets a copy to the host go on until then, for which the next pass waits: seconds.
  double copy_for_long();
  /// As StageExecutor makes a microbatch's forward pass, and the backward pass of the one that has
  /// waited for it longest: the same one, if none is in flight.
  void pass_through(PartCost& cost, bool splits);
  /// With whole backward passes, and with split ones where the schedule has them.
  PartCost all_passes_through();
  /// Begins a microbatch that stays in flight.
  void begin_another();
  /// From when on sums over ranks take time of their own. Where replicas of a part sum it in the
  /// last backward pass, that is made, and what it takes more than others counts.
  double sums_begin(const PartCost& cost);
  PairCost make_together(size_t forward_chunk);
  template <class Make>
  void observe(PassCost& pass, const Make& make);
  /// Steps as PostValidation does.
  void step_in_two_halves(PartCost& cost);

  /// Bytes, without what is on its way to the host: that goes in the next pass.
  int64_t held() const;
  /// When the passes so far end, and when all that goes on does.
  double passes_end() { return rank_.device.record(Stream::compute).time; }
  double end() { return rank_.device.now(); }
  /// Seconds of what is not a pass.
  template <class Work>
  double seconds_of(const Work& work) {
    const double start = end();
    work();
    return end() - start;
  }
  /// Seconds in which the host has given the device all work so far.
  double of_host() const;

  Tensor hidden();
  /// Pass with gathered weights, where replicas divide them.
  Pass gathering(std::optional<GatheredWeights>& gathered, Interleaving* beside) const;
  /// What it gives to the next part; nothing of the last one.
  Tensor forward(Gpt& model, Gpt::Saved& saved, const Tensor& total,
                 Interleaving* beside = nullptr);
  /// The gradient of what it was given; nothing of the first part.
  Tensor backward(Gpt& model, Gpt::Saved saved, Deferred* deferred, Interleaving* beside = nullptr);

  Rank& rank_;
  const OptimizerOptions options_;
  const double launch_;
  Models models_;
  Tensor block_;
  std::unique_ptr<Optimizer> optimizer_;
  std::deque<Gpt::Saved> in_flight_;
  bool waits_ = false;
  bool copies_ = false;  ///< for long, before each pass
  bool turns_ = false;   ///< a microbatch's backward pass follows its forward pass
  bool last_ = false;    ///< a microbatch is its batch's last
};

}  // namespace frugal::engine
