#pragma once
#include <map>

#include "engine/optimizer/optimizer.h"

namespace frugal::engine {

/// Weights of one rank in as many versions as its schedule needs at a time: one where batches are
/// flushed, two with 2BW, up to the depth of the pipeline with weight stashing. Version v is what v
/// steps have made of the initial weights. A version is a block of memory of its own; blocks that
/// are not needed are used again and not given back.
class WeightVersions {
 public:
  /// `block` holds the weights of all parameters (ParameterStore) and is version 0.
  WeightVersions(ParameterList parameters, Tensor block);

  /// Makes the parameters' weights those of this version, which must be alive. Announces it if it
  /// is another one than before.
  void use(Rank& rank, int version);

  /// Makes a new newest version, for the optimizer to write: in place of the one before, or
  /// elsewhere where that one is still needed. Throws OutOfMemory.
  WeightBlocks advance(Rank& rank, bool previous_is_needed);
  /// Announces a step to a program, where there are several versions.
  void announce_step(const RankAt& at) const;
  /// Gives up a version that is not needed any more. The newest one stays.
  void drop(int version);

  /// Resumes a training: its newest version is this one, and the one before it is there, too, if it
  /// is needed. The caller writes the values of both. Throws OutOfMemory.
  void resume(Rank& rank, int version, bool previous_is_needed);

  /// Gives the newest version another block; returns the one it had.
  Tensor exchange(Tensor block);

  int newest() const { return blocks_.rbegin()->first; }
  const Tensor& block(int version) const { return blocks_.at(version); }
  bool alive(int version) const { return blocks_.contains(version); }
  size_t alive() const { return blocks_.size(); }
  /// Blocks in memory, in use or not.
  size_t blocks() const { return blocks_.size() + free_.size(); }

 private:
  Tensor new_block(Rank& rank, const Tensor& like) const;
  void bind(int version);

  ParameterList parameters_;
  std::map<int, Tensor> blocks_;
  std::vector<Tensor> free_;
  int used_ = 0;
};

/// Gathers weights that replicas divide (Shard::weights) for one pass: those of a unit before it is
/// computed with, beside the unit before it. They are given back behind it, unless a program has
/// them stay.
class GatheredWeights final : public WeightSource {
 public:
  /// Time at which a pass needs weights: alone or last, before a backward pass, or in one. A
  /// backward pass is the last to need them.
  enum class Use : uint8_t { alone, before_backward, backward };

  /// `parts`: the rank's, of all units. By `choices` units may stay until a later
  /// pass, or where this is the last that needs them, until its end. `layers` of the model.
  explicit GatheredWeights(Tensor parts, const WeightChoices& choices = {}, Use use = Use::alone,
                           int64_t layers = 0)
      : parts_(std::move(parts)), choices_(choices), use_(use), layers_(layers) {}
  ~GatheredWeights() override;
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  void begin(const RankAt& at, const ParameterList& now, const ParameterList& next) override;
  void end(const ParameterList& now) noexcept override;
  void end_all() noexcept override;

 private:
  struct Arriving {
    std::shared_ptr<ParameterUnit> unit;
    Tensor
        buffer;  // of a program that copies units out of it; otherwise they arrive in their place
    Pending pending;
  };

  /// Starts to gather what is not there.
  void gather(const RankAt& at, const ParameterList& parameters);
  /// Waits for what arrives and is needed now, and copies it out of its buffer. In a forward pass
  /// that stays until the next unit has arrived.
  void receive(const RankAt& at, const ParameterList& now);
  /// Copies the last layer's weights, of a program whose layers stay.
  void keep_buffer(const RankAt& at, const ParameterUnit& unit);
  bool stays(const ParameterUnit& unit) const {
    if (unit.layer < 0) return choices_.outer_stay;
    const bool last = unit.layer + 1 == layers_;
    return use_ == Use::before_backward &&
           (choices_.layers_stay || (choices_.last_layer_stays && last));
  }

  Tensor parts_;
  const WeightChoices choices_;
  const Use use_;
  const int64_t layers_;
  std::vector<Arriving> arriving_;
  std::vector<std::shared_ptr<ParameterUnit>> staying_;  // until this pass ends
  Tensor buffer_;
  std::vector<Tensor> read_;  // buffers that units were copied out of
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
