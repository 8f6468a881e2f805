#pragma once
#include "engine/model/linear.h"

namespace frugal {

/// h → 4h → h with GELU between (korthikanti2022, figure 4); ends with dropout and the residual.
class Mlp {
 public:
  struct Saved {
    Tensor input;  // [s/t, b, h]
    Tensor u;      // [s, b, 4h/t], before GELU
    Tensor z;      // [s, b, 4h/t], after it
    Tensor mask;   // [s/t, b, h] u8, where masks are stored
  };

  Mlp(Rank& rank, const std::string& name, int layer);

  /// residual + dropout(down(gelu(up(x)))): x, residual and result [s/t, b, h].
  Tensor forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const;
  /// The gradient of x; that of the residual is dy itself.
  Tensor backward(Rank& rank, const Tensor& dy, Saved saved) const;

  ParameterList parameters();

 private:
  int layer_;
  ColumnParallelLinear up_;
  RowParallelLinear down_;
};

}  // namespace frugal
