#pragma once
#include <optional>

#include "engine/model/attention/attention.h"
#include "engine/model/mlp.h"
#include "engine/model/norm.h"
#include "engine/model/offloaded.h"

namespace frugal::engine {

/// One transformer layer, norms first (korthikanti2022, figure 2); Gemma 2's has norms behind
/// attention and behind the MLP besides, before the residual is added.
class TransformerLayer {
 public:
  /// Everything that the layer keeps for its backward pass. Its activation bytes are table 2 of
  /// korthikanti2022; under full recomputation the input is all there is.
  struct Saved {
    Offloaded offloaded;  // what of the following is in the host's memory
    Tensor input;         // [s/t, b, h], under full recomputation
    Norm::Saved attention_norm;
    Attention::Saved attention;
    Norm::Saved attention_post_norm;
    Norm::Saved mlp_norm;
    Mlp::Saved mlp;
    Norm::Saved mlp_post_norm;

    /// All that may go to the host's memory, in the same order each time.
    KeptTensors kept();
    /// Everything is on the device again.
    void restore(const Pass& pass) {
      if (pass.rank.config.offload) offloaded.restore(pass, kept());
    }
  };

  TransformerLayer(const RankAt& at, int index);

  /// [s/t, b, h] → the same shape.
  Tensor forward(const Pass& outer, const Tensor& x, Saved& saved) const;
  Tensor backward(const Pass& outer, Tensor dy, Saved saved);

  ParameterList parameters();

 private:
  /// Up to the MLP's input and what is added to its output: what there is to keep if the MLP
  /// computes itself again.
  struct Middle {
    Tensor normed, residual;  // [s/t, b, h]
  };
  Middle attend(const Pass& pass, const Tensor& x, Saved& saved) const;
  Tensor compute(const Pass& pass, const Tensor& x, Saved& saved) const;
  /// Result of the layer's second forward pass; empty where its MLP recomputes itself.
  Tensor recompute(const Pass& pass, const Tensor& x, Saved& saved) const;

  int index_;
  Norm attention_norm_;
  Attention attention_;
  std::optional<Norm> attention_post_norm_;
  Norm mlp_norm_;
  Mlp mlp_;
  std::optional<Norm> mlp_post_norm_;
};

}  // namespace frugal::engine
