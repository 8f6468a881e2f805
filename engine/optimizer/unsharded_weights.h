#pragma once
#include "engine/optimizer/optimizer.h"
#include "engine/optimizer/weight_versions.h"

/// Weights that a rank has only for a while: gathered from replicas, or exact where passes read
/// predicted ones.
namespace frugal::engine {

/// Gathers weights that replicas divide (Shard::weights) for one pass: those of a unit before it is
/// computed with, beside the unit before it. They are given back behind it, unless a program has
/// them stay.
class GatheredWeights final : public WeightSource {
 public:
  /// `parts`: the rank's, of all units. `keeps`: a program's; its units may stay until a later
  /// pass, or where this is the last that needs them, until its end.
  explicit GatheredWeights(Tensor parts, const Keeping& keeps = {}, bool last = true)
      : parts_(std::move(parts)),
        outer_stay_(keeps.outer_weights_stay),
        layers_stay_(keeps.layer_weights_stay && !last),
        last_(last) {}
  ~GatheredWeights() override;
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  void begin(const RankAt& at, const ParameterList& now, const ParameterList& next) override;
  void end(const ParameterList& now) noexcept override;
  void end_all() noexcept override;

 private:
  struct Arriving {
    std::shared_ptr<ParameterUnit> unit;
    Pending pending;
  };

  /// Starts to gather what is not there.
  void gather(const RankAt& at, const ParameterList& parameters);
  /// Copies the last layer's weights, of a program whose layers stay.
  void keep_buffer(const RankAt& at, const ParameterUnit& unit);
  bool stays(const ParameterUnit& unit) const {
    return unit.layer < 0 ? outer_stay_ : layers_stay_;
  }

  Tensor parts_;
  const bool outer_stay_, layers_stay_, last_;
  std::vector<Arriving> arriving_;
  std::vector<std::shared_ptr<ParameterUnit>> staying_;  // until this pass ends
  Tensor buffer_;
};

/// Gives a rank all of a parameter's newest weights while this lives, also where replicas divide
/// them. All replicas make it.
class UnshardedWeight {
 public:
  UnshardedWeight(Rank& rank, const WeightVersions& weights, Parameter& parameter)
      : gathered_(weights.block(weights.newest())), parameter_({&parameter}) {
    if (rank.config.shards(Shard::weights)) gathered_.begin(rank, parameter_, {});
  }
  ~UnshardedWeight() {
    if (parameter_.front()->unit && !parameter_.front()->unit->weights.empty())
      gathered_.end(parameter_);
  }
  UnshardedWeight(const UnshardedWeight&) = delete;
  UnshardedWeight& operator=(const UnshardedWeight&) = delete;

 private:
  GatheredWeights gathered_;
  const ParameterList parameter_;
};

/// Makes the newest weights exact while this lives, on a rank whose passes read predicted ones
/// (OptimizerOptions::prediction): a model is judged by exact weights, and saved with them.
class ExactWeights {
 public:
  ExactWeights(Rank& rank, WeightVersions& weights, Optimizer& optimizer) : weights_(weights) {
    if (!optimizer.update().predicts()) return;
    const Tensor& block = weights_.block(weights_.newest());
    const Tensor exact = rank.allocate(block.type(), block.shape(), Kind::parameter);
    optimizer.write_exact(exact);
    predicted_ = weights_.exchange(exact);
  }
  ~ExactWeights() {
    if (!predicted_.empty()) weights_.exchange(predicted_);
  }
  ExactWeights(const ExactWeights&) = delete;
  ExactWeights& operator=(const ExactWeights&) = delete;

 private:
  WeightVersions& weights_;
  Tensor predicted_;
};

}  // namespace frugal::engine
