#include "kernels/optimizers.h"

#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {
namespace {

/// Elements of type A or of type T: which, only the operands say.
template <class T>
class Elements {
 public:
  using A = Accumulator<T>;
  using V = Vec<A>;

  explicit Elements(const View& view)
      : wide_(view.type == dtype_of<A> ? view.as<A>() : nullptr),
        narrow_(wide_ == nullptr ? view.as<T>() : nullptr) {}

  V load(int64_t i, int64_t count) const {
    return wide_ == nullptr ? FRUGAL_SIMD::load<V>(narrow_ + i, count)
                            : FRUGAL_SIMD::load<V>(wide_ + i, count);
  }
  void store(int64_t i, V x, int64_t count, bool past_cache = false) const {
    if (wide_ == nullptr)
      FRUGAL_SIMD::store(narrow_ + i, x, count, past_cache);
    else
      FRUGAL_SIMD::store(wide_ + i, x, count, past_cache);
  }

 private:
  A* wide_;
  T* narrow_;
};

/// change(i, count, g) is what a vector of weights loses by its gradients g, beside its decay.
template <class T, class Change>
void update(const WeightUpdate& op, const Change& change) {
  using A = Accumulator<T>;
  using V = Vec<A>;
  const UpdateFactors<A> f(op);
  const bool copied = !op.master.empty();
  const Elements<T> gradient(op.gradient);
  // What is updated: the weights, or their master copy, which stays behind.
  const Elements<T> before(copied ? op.master : op.weights);
  const Elements<T> after(copied ? op.master : op.target());
  T* const rounded = copied ? op.target().as<T>() : nullptr;
  const bool past = past_cache(op.target(), op.weights);
  parallel_vectors<A>(op.weights.size(), [=](int64_t i, int64_t count) {
    const V w = before.load(i, count);
    const V g = gradient.load(i, count) * f.scale + w * f.l2;
    const V updated = w * f.decay - change(i, count, g);
    after.store(i, updated, count, past && !copied);
    if (rounded == nullptr) return;
    const V read = f.prediction == 0 ? updated : updated + (updated - w) * f.prediction;
    store(rounded + i, read, count, past);
  });
}

}  // namespace

void run(const Momentum& op) {
  by_type(op.update.weights.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    using V = Vec<A>;
    const MomentumFactors<A> f(op);
    if (op.moment.empty())
      return update<T>(op.update, [=](int64_t, int64_t, V g) { return g * f.rate; });
    update<T>(op.update, [=, moment = Elements<T>(op.moment)](int64_t i, int64_t count, V g) {
      const V m = moment.load(i, count) * f.beta + g * (1 - f.beta);
      moment.store(i, m, count);
      return m * f.rate;
    });
  });
}

void run(const Adam& op) {
  by_type(op.update.weights.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    using V = Vec<A>;
    const AdamFactors<A> f(op);
    const Elements<T> first(op.first_moment), second(op.second_moment);
    update<T>(op.update, [=](int64_t i, int64_t count, V g) {
      const V m = first.load(i, count) * f.beta1 + g * (1 - f.beta1);
      const V v = second.load(i, count) * f.beta2 + g * g * (1 - f.beta2);
      first.store(i, m, count);
      second.store(i, v, count);
      return m * f.rate / (square_root(v) * f.correction2 + f.epsilon);
    });
  });
}

}  // namespace frugal::FRUGAL_SIMD
