#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/shared.cuh"
#include "kernels/optimizers.h"

namespace frugal::kernels::cuda {
namespace {

/// `before` and `after`, of type W, are the weights and what they become, or the master copy, both
/// times; `after` is null where that stays, and `rounded` is null, or what is rounded from it.
/// Gradients are of type G.
template <class T, class W, class G>
struct Update {
  const G* gradient;
  const W* before;
  W* after;
  T* rounded;
  Clipping clipping;
  UpdateFactors<Accumulator<T>> f;

  explicit Update(const WeightUpdate& op)
      : gradient(op.gradient.as<G>()),
        before((op.master.empty() ? op.weights : op.master).template as<W>()),
        after(!op.master.empty() && op.keeps_state
                  ? nullptr
                  : (op.master.empty() ? op.target() : op.master).template as<W>()),
        rounded(op.master.empty() ? nullptr : op.target().as<T>()),
        clipping(op),
        f(op) {}
};

/// `moment`, of type M, may be null where beta is 0.
template <class M>
struct MomentumRule {
  using A = Accumulator<M>;
  M* moment;
  bool keeps;
  MomentumFactors<A> f;

  /// g: gradients of elements i to i + count, then what the weights lose by them.
  template <bool wide>
  __device__ void operator()(int64_t i, int64_t count, A (&g)[pack]) const {
    A m[pack] = {};
    if (moment != nullptr) load<wide>(moment + i, count, m);
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      m[e] = m[e] * f.beta + g[e] * (1 - f.beta);
      g[e] = m[e] * f.rate;
    }
    if (moment != nullptr && !keeps) store<wide>(moment + i, count, m);
  }
};

template <class M>
struct AdamRule {
  using A = Accumulator<M>;
  M *first, *second;
  bool keeps;
  AdamFactors<A> f;

  template <bool wide>
  __device__ void operator()(int64_t i, int64_t count, A (&g)[pack]) const {
    A m[pack], v[pack];
    load<wide>(first + i, count, m);
    load<wide>(second + i, count, v);
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      m[e] = m[e] * f.beta1 + g[e] * (1 - f.beta1);
      v[e] = v[e] * f.beta2 + g[e] * g[e] * (1 - f.beta2);
      g[e] = m[e] * f.rate / (sqrt(v[e]) * f.correction2 + f.epsilon);
    }
    if (keeps) return;
    store<wide>(first + i, count, m);
    store<wide>(second + i, count, v);
  }
};

/// Clipping's scale for all threads of the block, of which one takes the root.
__device__ inline float scale_of(const Clipping& c) {
  if (c.squared_norm == nullptr) return 1;
  FRUGAL_SHARED(float, scale, [1]);
  if (threadIdx.x == 0) scale[0] = c.scale(*c.squared_norm, sqrt(*c.squared_norm));
  __syncthreads();
  return scale[0];
}

/// One pack at a time: Adam's four operands are 128 bytes, and 64 where all are 16 bits wide.
template <bool wide, class Rule, class T, class W, class G>
__global__ void __launch_bounds__(elementwise_threads)
    update(Update<T, W, G> op, Rule rule, int64_t size) {
  using A = Accumulator<T>;
  const float scale = scale_of(op.clipping);
  if (scale == Clipping::no_update) return;
  each_pack(size, [=](int64_t i, int64_t count) {
    A g[pack], w[pack];
    load<wide>(op.gradient + i, count, g);
    load<wide>(op.before + i, count, w);
#pragma unroll
    for (int e = 0; e < pack; ++e) g[e] = g[e] * A(scale) + w[e] * op.f.l2;
    rule.template operator()<wide>(i, count, g);
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      const A after = w[e] * op.f.decay - g[e];
      g[e] = after;
      w[e] = op.f.prediction == A(0) ? after : after + (after - w[e]) * op.f.prediction;
    }
    if (op.after != nullptr) store<wide>(op.after + i, count, g);
    if (op.rounded != nullptr) store<wide>(op.rounded + i, count, w);
  });
}

/// rule_of(M{}) is the rule with moments of type M; `moments` are what it reads and writes, all of
/// one type.
template <class RuleOf, class... Moments>
void update_weights(const WeightUpdate& op, const Launch& on, const RuleOf& rule_of,
                    const View& moment, const Moments&... moments) {
  const int64_t size = op.weights.size();
  const bool wide =
      all_wide(size, op.weights, op.gradient, op.master, op.result, moment, moments...);
  const DType updated = op.master.empty() ? op.weights.type : op.master.type;
  dispatch(op.weights.type, wide, [&]<class T, class Wide>(T, Wide) {
    dispatch_either<T>(updated, [&]<class W>(W) {
      dispatch_either<T>(op.gradient.type, [&]<class G>(G) {
        const DType kept = moment.empty() ? accumulation_type(op.weights.type) : moment.type;
        dispatch_either<T>(kept, [&]<class M>(M) {
          using Rule = decltype(rule_of(M{}));
          launch(on, update<Wide::value, Rule, T, W, G>, elementwise_blocks(on, size),
                 elementwise_threads, Update<T, W, G>(op), rule_of(M{}), size);
        });
      });
    });
  });
}

}  // namespace

template <>
void run(const Momentum& op, const Launch& on) {
  const auto rule = [&]<class M>(M) {
    return MomentumRule<M>{op.moment.as<M>(), op.update.keeps_state,
                           MomentumFactors<Accumulator<M>>(op)};
  };
  update_weights(op.update, on, rule, op.moment);
}

template <>
void run(const Adam& op, const Launch& on) {
  const auto rule = [&]<class M>(M) {
    return AdamRule<M>{op.first_moment.as<M>(), op.second_moment.as<M>(), op.update.keeps_state,
                       AdamFactors<Accumulator<M>>(op)};
  };
  update_weights(op.update, on, rule, op.first_moment, op.second_moment);
}

}  // namespace frugal::kernels::cuda
