#include "engine/model/linear.h"

namespace frugal::engine {
namespace {

/// dx = dy · W, and where x is GELU of u, du in its place. In `into` where that is not empty.
Tensor input_gradient(const Pass& pass, const View& dy, const View& weight, const View& u = {},
                      const Tensor& into = {}) {
  Tensor dx =
      into.empty() ? pass.allocate(weight.type, {dy.shape[0], dy.shape[1], weight.cols()}) : into;
  const Gemm product{.a = dy.matrix(), .b = weight, .c = dx.view().matrix()};
  if (u.empty())
    pass.run(product);
  else
    pass.run(GemmGeluBackward{product, u.matrix()});
  return dx;
}

/// dW += dyᵀ · x, and the sum of dy's rows is added to the bias's gradient where there is one.
void weight_gradient(const Pass& pass, const View& dy, const View& x, const Parameter& weight,
                     const Parameter* bias = nullptr) {
  const Tensor beside = weight.piece_beside_sum(pass);
  const GradientSum sum = weight.product_sum(pass);
  const Gemm product{.a = dy.matrix(),
                     .b = x.matrix(),
                     .c = sum.view,
                     .transpose_a = true,
                     .accumulate = sum.accumulate};
  if (bias == nullptr)
    pass.run(product);
  else
    pass.run(GemmBiasGradient{product, bias->grad(pass)});
}

Shape output_shape(const View& x, const View& weight) {
  return {x.shape[0], x.shape[1], weight.shape[0]};
}

/// y = x · Wᵀ (+ bias).
Gemm product(const View& x, const View& weight, const View& bias, const View& y) {
  return {.a = x.matrix(), .b = weight, .c = y.matrix(), .bias = bias, .transpose_b = true};
}

}  // namespace

Tensor local_linear(const Pass& pass, const View& x, const View& weight, const View& bias,
                    DType type, const Pieces& pieces) {
  Tensor y = pass.allocate(type, output_shape(x, weight), pieces);
  pass.run(product(x, weight, bias, y));
  return y;
}

Tensor column_parallel_backward(const Pass& pass, const Tensor& dy, const Tensor& x,
                                const Parameter& weight, const Parameter* bias,
                                const Tensor& into) {
  const Parameter* const summed = pass.rank.config.fuse_bias_gradients ? bias : nullptr;
  if (summed != nullptr) bias = nullptr;
  const auto leaving_gradient = [&] {
    const bool sharded = parallel::leaves_in_shards(pass.rank);
    return parallel::leave(
        pass, input_gradient(pass, dy, weight.view(), {}, sharded ? Tensor() : into), into);
  };
  if (pass.deferred != nullptr) {
    Tensor dx = leaving_gradient().wait();
    if (bias != nullptr) pass.run(ColumnSum{dy.view().matrix(), bias->grad(pass)});
    pass.deferred->push_back(
        [&weight, summed, dy = keep(pass, dy), x = keep(pass, x)](const Pass& later) {
          weight_gradient(later, dy, parallel::enter(later, x).wait(), weight, summed);
        });
    return dx;
  }
  parallel::Arriving gathering = parallel::enter(pass, x);
  parallel::Arriving leaving = leaving_gradient();
  Tensor waited_for;
  if (pass.rank.config.program.waits_for_tensor_sums) waited_for = leaving.wait_at_once();
  if (bias != nullptr) pass.run(ColumnSum{dy.view().matrix(), bias->grad(pass)});
  const Tensor all = gathering.wait();
  weight_gradient(pass, dy, all, weight, summed);
  if (!waited_for.empty()) return waited_for;
  // The other pass has its turn at the layer's other collectives: with one more here, a backward
  // pass would have more turns than the forward pass beside it, and end later.
  return leaving.wait_at_once();
}

ColumnParallelLinear::ColumnParallelLinear(const RankAt& at, const std::string& name,
                                           const Size& size, Initial initial)
    : weight_(at, name + ".weight", {size.out, size.in}, size.sharding, initial) {
  weight_.pieces = size.pieces;
  if (size.bias) bias_.emplace(at, name + ".bias", Shape{size.out}, size.sharding, Initial{});
}

Tensor ColumnParallelLinear::forward(const Pass& pass, const Tensor& x) const {
  const Tensor all = parallel::enter(pass, x).wait();
  return local_linear(pass, all, weight_.view(), bias(), pass.rank.config.type, weight_.pieces);
}

Tensor ColumnParallelLinear::forward_gelu(const Pass& pass, const Tensor& x, Tensor& u) const {
  const Tensor all = parallel::enter(pass, x).wait();
  u = pass.allocate(output_shape(all, weight_.view()));
  Tensor z = pass.allocate(u.shape());
  pass.run(GemmGelu{product(all, weight_.view(), bias(), u), z.view().matrix()});
  return z;
}

void ColumnParallelLinear::forward_columns(const Pass& pass, const Tensor& x, int64_t first,
                                           const View& to) const {
  const Tensor all = parallel::enter(pass, x).wait();
  const View some = bias().empty() ? View() : bias().sliced(0, first, to.cols());
  pass.run(Gemm{.a = all.view().matrix(),
                .b = weight_.view().sliced(0, first, to.cols()),
                .c = to,
                .bias = some,
                .transpose_b = true});
}

Tensor ColumnParallelLinear::forward_every(const Pass& pass, const Tensor& x, int64_t first,
                                           int64_t count, int64_t period) const {
  const auto rows = [&](const View& of) {  // of the weight, or of the bias as a column
    const int64_t in = of.shape.dims == 1 ? 1 : of.cols(), groups = of.shape[0] / period;
    Tensor some = pass.allocate({groups * count, in});
    pass.run(Copy{of.strided(first * in, {groups, count * in}, {period * in, 1}),
                  some.view().reshaped({groups, count * in})});
    return some;
  };
  const Tensor all = parallel::enter(pass, x).wait();
  const Tensor weight = rows(weight_.view());
  const Tensor added = bias_ ? rows(bias_->view()) : Tensor();
  return local_linear(pass, all, weight, bias_ ? added.view().flat() : View(),
                      pass.rank.config.type);
}

Tensor ColumnParallelLinear::backward(const Pass& pass, const Tensor& dy, const Tensor& x,
                                      const Tensor& into) const {
  return column_parallel_backward(pass, dy, x, weight_, bias_ ? &*bias_ : nullptr, into);
}

RowParallelLinear::RowParallelLinear(const RankAt& at, const std::string& name, const Size& size,
                                     Initial initial)
    : weight_(at, name + ".weight", {size.out, size.in}, Sharding::columns, initial) {
  if (!size.bias) return;
  bias_.emplace(at, name + ".bias", Shape{size.out}, Sharding::replicated, Initial{});
  bias_->gradient_is_partial = at.rank.config.sequence_parallel;
}

bool RowParallelLinear::sums_bias(const Pass& pass) const {
  const RunConfig& c = pass.rank.config;
  return c.fuse_bias_gradients && bias_ && !bias_->gradient_is_partial && c.model.dropout == 0;
}

Tensor RowParallelLinear::forward(const Pass& pass, const Tensor& x) const {
  return parallel::leave(pass, local_linear(pass, x, weight_.view(), {}, pass.rank.config.type))
      .wait();
}

Tensor RowParallelLinear::backward(const Pass& pass, const Tensor& dy, const Tensor& x,
                                   const View& u) const {
  const Tensor all = parallel::enter(pass, dy).wait();
  Tensor dx = input_gradient(pass, all, weight_.view(), u);
  const Parameter* const summed = sums_bias(pass) ? &*bias_ : nullptr;
  if (pass.deferred == nullptr) {
    weight_gradient(pass, all, x, weight_, summed);
  } else {
    pass.deferred->push_back(
        [this, summed, dy = keep(pass, dy), x = keep(pass, x)](const Pass& later) {
          weight_gradient(later, parallel::enter(later, dy).wait(), x, weight_, summed);
        });
  }
  return dx;
}

}  // namespace frugal::engine
