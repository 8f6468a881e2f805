#pragma once
#include <optional>

#include "engine/model/parallel.h"
#include "engine/model/parameter.h"

namespace frugal::engine {

/// y = x · Wᵀ (+ bias), W [out, in], divided over the tensor-parallel group by its outputs.
/// Forward takes the region's input as it is held outside (a shard of the sequence under sequence
/// parallelism); only that shard is to be kept, and it is gathered again in backward.
class ColumnParallelLinear {
 public:
  struct Size {
    int64_t in = 0, out = 0;
    bool bias = true;
    Sharding sharding = Sharding::rows;  ///< or row_halves: two maps, one behind the other
    Pieces pieces = {};                  ///< of `out`, where a program has a map for each
  };
  ColumnParallelLinear(const RankAt& at, const std::string& name, const Size& size,
                       Initial initial);

  /// x [s/t, b, in] or [s, b, in] → [s, b, out/t].
  Tensor forward(const Pass& pass, const Tensor& x) const;
  /// GELU(y); `u` is y.
  Tensor forward_gelu(const Pass& pass, const Tensor& x, Tensor& u) const;
  /// Some columns of y, those from `first` on: `to`, [s·b, columns].
  void forward_columns(const Pass& pass, const Tensor& x, int64_t first, const View& to) const;
  /// Columns `first` to `first + count` of every `period` of y, by one product: [s, b, out / t /
  /// period · count].
  Tensor forward_every(const Pass& pass, const Tensor& x, int64_t first, int64_t count,
                       int64_t period) const;
  /// dy [s, b, out/t] → dx as x was, in `into` where that is not empty.
  Tensor backward(const Pass& pass, const Tensor& dy, const Tensor& x,
                  const Tensor& into = {}) const;

  /// Parameter::memory_beside_sum() of the weight.
  Tensor memory_beside_sum(const Pass& pass) const { return weight_.memory_beside_sum(pass); }
  const Pieces& pieces() const { return weight_.pieces; }
  ParameterList parameters() { return with_optional(weight_, bias_); }

 private:
  View bias() const { return bias_ ? bias_->view() : View(); }

  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// y = x · Wᵀ, divided by its inputs: partial sums leave the region through f̄ or ḡ. The bias is
/// added once, after the sum, by who uses y.
class RowParallelLinear {
 public:
  struct Size {
    int64_t in = 0, out = 0;
    bool bias = true;
  };
  RowParallelLinear(const RankAt& at, const std::string& name, const Size& size, Initial initial);

  /// x [s, b, in/t] → [s, b, out], or [s/t, b, out] under sequence parallelism.
  Tensor forward(const Pass& pass, const Tensor& x) const;
  /// dy as y was → dx [s, b, in/t], or where x is GELU of u, du.
  Tensor backward(const Pass& pass, const Tensor& dy, const Tensor& x, const View& u = {}) const;

  /// Parameter::memory_beside_sum() of the weight.
  Tensor memory_beside_sum(const Pass& pass) const { return weight_.memory_beside_sum(pass); }
  /// Null where there is none.
  const Parameter* bias() const { return bias_ ? &*bias_ : nullptr; }
  /// The bias whose gradient is left to who has added it: null where backward() sums it.
  const Parameter* bias_to_sum(const Pass& pass) const {
    return sums_bias(pass) ? nullptr : bias();
  }
  ParameterList parameters() { return with_optional(weight_, bias_); }

 private:
  /// True if backward sums the gradient of the bias: dy is that of y + bias, and whole.
  bool sums_bias(const Pass& pass) const;

  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// y = x · Wᵀ + bias on this rank; x [s, b, in], W [out, in]; bias may be empty.
Tensor local_linear(const Pass& pass, const View& x, const View& weight, const View& bias,
                    DType type, const Pieces& pieces = {});

/// The backward pass of y = enter(x) · Wᵀ (+ bias): beside the input gradient's GEMM runs the
/// gather of x, beside the weight gradient's the reduction of dx. dx goes to `into` where that is
/// not empty.
Tensor column_parallel_backward(const Pass& pass, const Tensor& dy, const Tensor& x,
                                const Parameter& weight, const Parameter* bias,
                                const Tensor& into = {});

}  // namespace frugal::engine
