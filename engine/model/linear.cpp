#include "engine/model/linear.h"

#include "engine/model/saved.h"

namespace frugal {
namespace {

/// dx = dy · W, and where x is GELU of u, du in its place. In `into` where that is not empty.
Tensor input_gradient(Rank& rank, const View& dy, const View& weight, const View& u = {},
                      const Tensor& into = {}) {
  Tensor dx =
      into.empty() ? rank.allocate(weight.type, {dy.shape[0], dy.shape[1], weight.cols()}) : into;
  const Gemm product{.a = dy.matrix(), .b = weight, .c = dx.view().matrix()};
  if (u.empty())
    rank.run(product);
  else
    rank.run(GemmGeluBackward{product, u.matrix()});
  return dx;
}

/// dW += dyᵀ · x.
void weight_gradient(Rank& rank, const View& dy, const View& x, const Parameter& weight) {
  const GradientSum sum = weight.product_sum(rank);
  rank.run(Gemm{.a = dy.matrix(),
                .b = x.matrix(),
                .c = sum.view,
                .transpose_a = true,
                .accumulate = sum.accumulate});
}

Shape output_shape(const View& x, const View& weight) {
  return {x.shape[0], x.shape[1], weight.shape[0]};
}

/// y = x · Wᵀ (+ bias).
Gemm product(const View& x, const View& weight, const View& bias, const View& y) {
  return {.a = x.matrix(), .b = weight, .c = y.matrix(), .bias = bias, .transpose_b = true};
}

ParameterList with_bias(Parameter& weight, std::optional<Parameter>& bias) {
  return bias ? ParameterList{&weight, &*bias} : ParameterList{&weight};
}

}  // namespace

Tensor local_linear(Rank& rank, const View& x, const View& weight, const View& bias, DType type) {
  Tensor y = rank.allocate(type, output_shape(x, weight));
  rank.run(product(x, weight, bias, y));
  return y;
}

Tensor column_parallel_backward(Rank& rank, const Tensor& dy, const Tensor& x,
                                const Parameter& weight, const Parameter* bias,
                                const Tensor& into) {
  const auto leaving_gradient = [&] {
    const bool sharded = parallel::leaves_in_shards(rank);
    return parallel::leave(
        rank, input_gradient(rank, dy, weight.view(), {}, sharded ? Tensor() : into), into);
  };
  if (rank.deferred != nullptr) {
    Tensor dx = leaving_gradient().wait();
    if (bias != nullptr) rank.run(ColumnSum{dy.view().matrix(), bias->grad(rank)});
    rank.deferred->push_back([&rank, &weight, dy = keep(dy), x] {
      weight_gradient(rank, dy, parallel::enter(rank, x).wait(), weight);
    });
    return dx;
  }
  parallel::Arriving gathering = parallel::enter(rank, x);
  parallel::Arriving leaving = leaving_gradient();
  if (bias != nullptr) rank.run(ColumnSum{dy.view().matrix(), bias->grad(rank)});
  const Tensor all = gathering.wait();
  weight_gradient(rank, dy, all, weight);
  return leaving.wait();
}

ColumnParallelLinear::ColumnParallelLinear(Rank& rank, const std::string& name, const Size& size,
                                           Initial initial)
    : weight_(rank, name + ".weight", {size.out, size.in}, size.sharding, initial) {
  if (size.bias) bias_.emplace(rank, name + ".bias", Shape{size.out}, size.sharding, Initial{});
}

Tensor ColumnParallelLinear::forward(Rank& rank, const Tensor& x) const {
  const Tensor all = parallel::enter(rank, x).wait();
  return local_linear(rank, all, weight_.view(), bias(), rank.config.type);
}

Tensor ColumnParallelLinear::forward_gelu(Rank& rank, const Tensor& x, Tensor& u) const {
  const Tensor all = parallel::enter(rank, x).wait();
  u = rank.allocate(output_shape(all, weight_.view()));
  Tensor z = rank.allocate(u.shape());
  rank.run(GemmGelu{product(all, weight_.view(), bias(), u), z.view().matrix()});
  return z;
}

Tensor ColumnParallelLinear::backward(Rank& rank, const Tensor& dy, const Tensor& x,
                                      const Tensor& into) const {
  return column_parallel_backward(rank, dy, x, weight_, bias_ ? &*bias_ : nullptr, into);
}

ParameterList ColumnParallelLinear::parameters() { return with_bias(weight_, bias_); }

RowParallelLinear::RowParallelLinear(Rank& rank, const std::string& name, const Size& size,
                                     Initial initial)
    : weight_(rank, name + ".weight", {size.out, size.in}, Sharding::columns, initial) {
  if (!size.bias) return;
  bias_.emplace(rank, name + ".bias", Shape{size.out}, Sharding::replicated, Initial{});
  bias_->gradient_is_partial = rank.config.sequence_parallel;
}

ParameterList RowParallelLinear::parameters() { return with_bias(weight_, bias_); }

Tensor RowParallelLinear::forward(Rank& rank, const Tensor& x) const {
  return parallel::leave(rank, local_linear(rank, x, weight_.view(), {}, rank.config.type)).wait();
}

Tensor RowParallelLinear::backward(Rank& rank, const Tensor& dy, const Tensor& x,
                                   const View& u) const {
  const Tensor all = parallel::enter(rank, dy).wait();
  Tensor dx = input_gradient(rank, all, weight_.view(), u);
  if (rank.deferred == nullptr) {
    weight_gradient(rank, all, x, weight_);
  } else {
    rank.deferred->push_back([&rank, this, dy = keep(dy), x] {
      weight_gradient(rank, parallel::enter(rank, dy).wait(), x, weight_);
    });
  }
  return dx;
}

}  // namespace frugal
