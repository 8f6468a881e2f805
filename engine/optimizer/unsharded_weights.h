#pragma once
#include "engine/optimizer/gathered_weights.h"
#include "engine/optimizer/optimizer.h"
#include "engine/optimizer/weight_versions.h"

/// Weights as they are read outside of passes.
namespace frugal::engine {

/// While this lives, the newest weights are exact on a rank whose passes read predicted ones
/// (OptimizerOptions::prediction): those that a model is judged by, and saved with.
class ExactWeights {
 public:
  ExactWeights(Rank& rank, WeightVersions& weights, Optimizer& optimizer) : weights_(weights) {
    if (!optimizer.predicts()) return;
    const Tensor& block = weights_.block(weights_.newest());
    const Tensor exact = rank.allocate(block.type(), block.shape(), Kind::parameter);
    optimizer.write_exact(rank, exact);
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

/// While this lives, a rank has all of a parameter's newest weights, of those that replicas divide
/// too. All replicas make it.
class GatheredWeight {
 public:
  GatheredWeight(Rank& rank, const WeightVersions& weights, Parameter& parameter)
      : gathered_(weights.block(weights.newest())), parameter_({&parameter}) {
    if (rank.config.shards(Shard::weights)) gathered_.begin(rank, parameter_, {});
  }
  ~GatheredWeight() {
    if (parameter_.front()->unit && !parameter_.front()->unit->weights.empty())
      gathered_.end(parameter_);
  }
  GatheredWeight(const GatheredWeight&) = delete;
  GatheredWeight& operator=(const GatheredWeight&) = delete;

 private:
  GatheredWeights gathered_;
  const ParameterList parameter_;
};

}  // namespace frugal::engine
