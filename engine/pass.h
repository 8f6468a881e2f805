#pragma once
#include <functional>
#include <vector>

#include "engine/rank.h"

namespace frugal::engine {

struct Parameter;
struct Pass;

/// Weight gradients that a backward pass has left for a later one (ActionKind::weight_backward).
using Deferred = std::vector<std::function<void(const Pass&)>>;

/// Sees a part of the logits of a pass, [rows, columns], which begins at this row of all tokens and
/// this column of the vocabulary.
using OnLogits =
    std::function<void(const Pass&, const View& logits, int64_t first_row, int64_t first_column)>;

/// Is told of parameters whose gradients a backward pass has completed.
using OnGradients = std::function<void(const Pass&, const std::vector<Parameter*>&)>;

/// Holder of the weights of parameters of which a rank has parts alone (RunConfig::shard): a pass
/// says which it needs.
struct WeightSource {
  virtual ~WeightSource() = default;
  /// The pass computes with the weights of `now` until end(), and with those of `next` after that.
  virtual void begin(const RankAt& at, const std::vector<Parameter*>& now,
                     const std::vector<Parameter*>& next) = 0;
  virtual void end(const std::vector<Parameter*>& now) noexcept = 0;
  /// The pass computes with no weights any more.
  virtual void end_all() noexcept = 0;
};

/// Circumstances of one microbatch's pass through a part of the model. The pointers are null where
/// there is nothing, and what they point to outlives the pass.
struct Pass : RankAt {
  explicit Pass(Rank& rank, Place place = {})
      : RankAt(rank, place), recompute(rank.config.recompute) {}

  /// Number of the microbatch in the whole run: makes every dropout mask its own.
  uint32_t draw = 0;
  /// True if dropout is applied.
  bool training = true;
  /// Extent of what the microbatch does not keep.
  Recompute recompute;
  /// Receives the weight gradients that a backward pass leaves; null: it computes them at once.
  Deferred* deferred = nullptr;
  /// Sees the logits of a forward pass, in one part or several.
  const OnLogits* on_logits = nullptr;
  /// Steps in backward, or sums gradients there. Null: gradients are kept.
  const OnGradients* on_gradients = nullptr;
  /// Gives weights that replicas divide. Null: they are there.
  WeightSource* weights = nullptr;

  /// True if what this module of a layer gives is discarded, and made again in backward.
  bool recomputes(LayerModule module) const {
    return recompute == Recompute::selective && rank.config.recompute_modules.has(module);
  }
  /// Returns this pass with memory that belongs to a layer.
  Pass in_layer(int layer) const {
    Pass pass = in(Part::layer);
    pass.place.layer = layer;
    return pass;
  }
  /// Returns this pass with memory that belongs to a module.
  Pass in(Part part) const {
    Pass pass = *this;
    pass.place.part = part;
    return pass;
  }
};

}  // namespace frugal::engine
