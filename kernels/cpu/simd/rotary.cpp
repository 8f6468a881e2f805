#include <array>

#include "kernels/cpu/simd/rows.h"
#include "kernels/normal.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// cosines[i] and sines[i] of the angle position · frequencies[i]. In float32 an angle is a whole
/// number of 2^−32 turns, taken in float64; whole turns fall off with the upper bits.
void directions(int64_t position, const float* frequencies, int64_t n, float* cosines,
                float* sines) {
  constexpr double words_per_radian = 0x1p31 * std::numbers::inv_pi;
  const auto factor = static_cast<double>(position) * words_per_radian;
  vectors<float>(n, [&](int64_t j, int64_t count) {
    std::array<uint32_t, floats> words{};
    for (int64_t i = 0; i < count; ++i) {
      const double angle = static_cast<double>(frequencies[j + i]) * factor;
      words[static_cast<size_t>(i)] = static_cast<uint32_t>(static_cast<int64_t>(angle));
    }
    const Direction<FloatLanes> direction(bits<U32>(words));
    store(cosines + j, direction.cosine, count);
    store(sines + j, direction.sine, count);
  });
}
/// Directions by the library's functions, for tests.
void directions(int64_t position, const double* frequencies, int64_t n, double* cosines,
                double* sines) {
  for (int64_t i = 0; i < n; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cosines[i] = std::cos(angle);
    sines[i] = std::sin(angle);
  }
}

/// Turns one vector of 2 · half elements.
template <class T, class A>
void turn(T* x, int64_t half, const A* cosines, const A* sines, A sign) {
  using V = Vec<A>;
  vectors<A>(half, [=](int64_t j, int64_t count) {
    const V a = load<V>(x + j, count), b = load<V>(x + half + j, count);
    const V c = load<V>(cosines + j, count), s = load<V>(sines + j, count) * sign;
    store(x + j, a * c - b * s, count);
    store(x + half + j, b * c + a * s, count);
  });
}

}  // namespace

template <>
void run(const Rotary& op) {
  const bool grouped = op.x.shape.dims == 4;
  const int64_t groups = grouped ? op.x.shape[1] : 1, heads = op.x.shape[grouped ? 2 : 1];
  const int64_t group_stride = grouped ? op.x.stride[1] : 0,
                head_stride = op.x.stride[grouped ? 2 : 1];
  const int64_t d = op.x.cols(), half = d / 2;
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    parallel(op.x.shape[0], groups * heads * d, [&](int64_t row) {
      auto* const cosines =
          static_cast<A*>(scratch(Scratch::row, static_cast<size_t>(2 * half) * sizeof(A)));
      A* const sines = cosines + half;
      directions(op.first + row, op.frequencies.as<A>(), half, cosines, sines);
      T* const x = op.x.as<T>() + row * op.x.stride[0];
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t h = 0; h < heads; ++h)
          turn(x + g * group_stride + h * head_stride, half, cosines, sines,
               A(op.inverse ? -1 : 1));
    });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
