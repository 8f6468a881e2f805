#include "kernels/optimizers.h"

#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// Calls f with the elements of a view whose type is T or T's accumulation type.
template <class T, class F>
void by_width(const View& view, const F& f) {
  using A = Accumulator<T>;
  if (view.type == dtype_of<A>) return f(view.as<A>());
  if constexpr (!std::is_same_v<T, A>) f(view.as<T>());
}

float scale_of(const Clipping& c) {
  return c.squared_norm == nullptr ? 1 : c.scale(*c.squared_norm, std::sqrt(*c.squared_norm));
}

/// change(i, count, g) is what a vector of weights loses by its gradients g, beside its decay.
template <class T, class Change>
void update(const WeightUpdate& op, const Change& change) {
  using A = Accumulator<T>;
  using V = Vec<A>;
  const UpdateFactors<A> f(op);
  const A scale = A(scale_of(Clipping(op)));
  if (scale == A(Clipping::no_update)) return;
  const bool copied = !op.master.empty();
  T* const rounded = copied ? op.target().as<T>() : nullptr;
  const bool past = past_cache(op.target(), op.weights);
  by_width<T>(op.gradient, [&](const auto* gradient) {
    // What is updated: the weights, or their master copy, which stays behind.
    by_width<T>(copied ? op.master : op.weights, [&]<class W>(const W* before) {
      W* const after =
          copied && op.keeps_state ? nullptr : (copied ? op.master : op.target()).template as<W>();
      parallel_vectors<A>(op.weights.size(), [=](int64_t i, int64_t count) {
        const V w = load<V>(before + i, count);
        const V g = load<V>(gradient + i, count) * scale + w * f.l2;
        const V updated = w * f.decay - change(i, count, g);
        if (after != nullptr) store(after + i, updated, count, past && !copied);
        if (rounded == nullptr) return;
        const V read = f.prediction == 0 ? updated : updated + (updated - w) * f.prediction;
        store(rounded + i, read, count, past);
      });
    });
  });
}

}  // namespace

template <>
void run(const Momentum& op) {
  by_type(op.update.weights.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    using V = Vec<A>;
    const MomentumFactors<A> f(op);
    if (op.moment.empty())
      return update<T>(op.update, [=](int64_t, int64_t, V g) { return g * f.rate; });
    by_width<T>(op.moment, [&, keeps = op.update.keeps_state](auto* moment) {
      update<T>(op.update, [=](int64_t i, int64_t count, V g) {
        const V m = load<V>(moment + i, count) * f.beta + g * (1 - f.beta);
        if (!keeps) store(moment + i, m, count);
        return m * f.rate;
      });
    });
  });
}

template <>
void run(const Adam& op) {
  by_type(op.update.weights.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    using V = Vec<A>;
    const AdamFactors<A> f(op);
    by_width<T>(op.first_moment, [&, keeps = op.update.keeps_state]<class M>(M* first) {
      M* const second = op.second_moment.as<M>();
      update<T>(op.update, [=](int64_t i, int64_t count, V g) {
        const V m = load<V>(first + i, count) * f.beta1 + g * (1 - f.beta1);
        const V v = load<V>(second + i, count) * f.beta2 + g * g * (1 - f.beta2);
        if (!keeps) store(first + i, m, count);
        if (!keeps) store(second + i, v, count);
        return m * f.rate / (square_root(v) * f.correction2 + f.epsilon);
      });
    });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
