#pragma once
#include <functional>
#include <vector>

#include "engine/rank.h"

namespace frugal::engine {

struct Parameter;
struct Pass;

/// Weight gradients that a backward pass has left for a later one (ActionKind::weight_backward).
using Deferred = std::vector<std::function<void(const Pass&)>>;

/// Is told of parameters whose gradients a backward pass has completed.
using OnGradients = std::function<void(const Pass&, const std::vector<Parameter*>&)>;

/// Owner of the weights of parameters that a rank has parts of alone (RunConfig::shard): a pass
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

/// Facts that one microbatch's pass through a part of the model needs beside its operands. The
/// pointers are null where there is nothing, and what they point to outlives the pass.
struct Pass : RankAt {
  explicit Pass(Rank& rank, Place place = {})
      : RankAt(rank, place), recompute(rank.config.recompute) {}

  /// Number of the microbatch in the whole run: makes every dropout mask its own.
  uint32_t draw = 0;
  /// Dropout is applied.
  bool training = true;
  /// Activations that the microbatch does not keep.
  Recompute recompute;
  /// Weight gradients that a backward pass leaves for later; null: it computes them at once.
  Deferred* deferred = nullptr;
  /// Hears of gradients that a run steps with, or sums, in backward. Null: they are kept.
  const OnGradients* on_gradients = nullptr;
  /// Source of weights that replicas divide. Null: they are there.
  WeightSource* weights = nullptr;

  /// Nothing that a layer's modules give is kept, since all of it is computed again.
  bool discards = false;

  /// True if a layer's module gives what is discarded, and made again in backward.
  bool recomputes(LayerModule module) const {
    return discards ||
           (recompute == Recompute::selective && rank.config.recompute_modules.has(module));
  }
  /// Copy of the pass whose memory belongs to this layer.
  Pass in_layer(int layer) const {
    Pass pass = in(Part::layer);
    pass.place.layer = layer;
    return pass;
  }
  /// Copy of the pass whose memory belongs to this module.
  Pass in(Part part) const {
    Pass pass = *this;
    pass.place.part = part;
    return pass;
  }
};

/// Marks a tensor as kept from this forward pass for the backward pass: from now on its bytes are
/// activation memory at the pass's place. Structs named …Saved hold everything so marked.
inline const Tensor& keep(const Pass& pass, const Tensor& x) {
  return x.labelled(Kind::activation, pass.place);
}

/// A tensor of a struct named …Saved, which may be empty, and what it is part of.
struct KeptTensor {
  LayerModule module;
  Tensor* tensor;
};
using KeptTensors = std::vector<KeptTensor>;

/// Recomputation of a tensor that a forward pass has not kept.
using Rematerialized = std::function<Tensor()>;

}  // namespace frugal::engine
