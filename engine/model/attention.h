#pragma once
#include "engine/model/linear.h"

namespace frugal {

/// Self-attention with separate QKᵀ, softmax, dropout and AV (korthikanti2022, figure 3), heads
/// divided over the tensor-parallel group. It ends with projection, dropout and the residual.
class Attention {
 public:
  /// What selective recomputation drops: 5as²b bytes in 16 bit.
  struct CoreSaved {
    Tensor probabilities;  // [b·a/t, s, s]
    Tensor mask;           // [b·a/t, s, s] u8, where masks are stored
    Tensor dropped;        // [b·a/t, s, s], the probabilities themselves without dropout
  };
  struct Saved {
    Tensor input;    // [s/t, b, h]
    Tensor qkv;      // [s, b, 3h/t]
    CoreSaved core;  // empty when it is to be recomputed
    Tensor context;  // [s, b, h/t]
    Tensor mask;     // [s/t, b, h] u8, where masks are stored
  };

  Attention(Rank& rank, const std::string& name, int layer);

  /// residual + dropout(projection(attention(x))): x, residual and result [s/t, b, h].
  Tensor forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const;
  /// The gradient of x; that of the residual is dy itself.
  Tensor backward(Rank& rank, const Tensor& dy, Saved saved) const;

  ParameterList parameters();

 private:
  /// The attention core: softmax(QKᵀ / √d), dropout, times V → context [s, b, h/t]. Selective
  /// recomputation runs all of it again, as the paper does, although the product with V is not
  /// needed a second time.
  Tensor core_forward(Rank& rank, const Tensor& qkv, CoreSaved& saved) const;
  /// dQ, dK and dV, laid out as qkv is.
  Tensor core_backward(Rank& rank, const Tensor& dcontext, const Tensor& qkv, CoreSaved core) const;

  int layer_;
  ColumnParallelLinear qkv_;
  RowParallelLinear projection_;
};

}  // namespace frugal
