#pragma once
#include "engine/model/attention.h"
#include "engine/model/mlp.h"
#include "engine/model/norm.h"

namespace frugal {

/// One transformer layer, norms first (korthikanti2022, figure 2).
class TransformerLayer {
 public:
  /// Everything that the layer keeps for its backward pass. Its activation bytes are table 2 of
  /// korthikanti2022; under full recomputation the input is all there is.
  struct Saved {
    Tensor input;  // [s/t, b, h]
    Norm::Saved attention_norm;
    Attention::Saved attention;
    Norm::Saved mlp_norm;
    Mlp::Saved mlp;
  };

  TransformerLayer(Rank& rank, int index);

  /// [s/t, b, h] → the same shape.
  Tensor forward(Rank& rank, const Tensor& x, Saved& saved) const;
  Tensor backward(Rank& rank, const Tensor& dy, Saved saved) const;

  ParameterList parameters();

 private:
  Tensor compute(Rank& rank, const Tensor& x, Saved& saved) const;

  int index_;
  Norm attention_norm_;
  Attention attention_;
  Norm mlp_norm_;
  Mlp mlp_;
};

}  // namespace frugal
