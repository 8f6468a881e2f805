#pragma once
#include "engine/model/attention/attention_core.h"
#include "engine/model/attention/rotary.h"
#include "engine/model/linear.h"

namespace frugal::engine {

/// Self-attention, heads divided over the tensor-parallel group. It ends with projection, dropout
/// and the residual.
class Attention {
 public:
  struct Saved {
    Tensor input;               // [s/t, b, h]
    AttentionCore::Saved core;  // queries and keys are rotated
    Tensor context;             // [s, b, a·d/t]
    Tensor mask;                // [s/t, b, h] u8, where masks are stored
  };

  Attention(const RankAt& at, const std::string& name, int layer);

  /// residual + dropout(projection(attention(x))): x, residual and result [s/t, b, h]. The residual
  /// may be empty.
  Tensor forward(const Pass& outer, const Tensor& x, const Tensor& residual, Saved& saved) const;
  /// The gradient of x; that of the residual is dy itself.
  Tensor backward(const Pass& outer, const Tensor& dy, Saved saved);

  ParameterList parameters();

 private:
  int layer_;
  ColumnParallelLinear qkv_;
  RotaryPositions positions_;
  std::unique_ptr<const AttentionCore> core_;
  RowParallelLinear projection_;
};

}  // namespace frugal::engine
