#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/keep.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/normal.h"

namespace frugal::kernels::cuda {
namespace {

/// A float32 whose multiplications and additions are never made one: its numbers are the CPU's.
struct Apart {
  float x;

  Apart() = default;
  __device__ Apart(float x) : x(x) {}  // NOLINT(google-explicit-constructor): is a number
  __device__ friend Apart operator*(Apart a, Apart b) { return __fmul_rn(a.x, b.x); }
  __device__ friend Apart operator+(Apart a, Apart b) { return __fadd_rn(a.x, b.x); }
  __device__ friend Apart operator-(Apart a, Apart b) { return __fadd_rn(a.x, -b.x); }
  __device__ Apart operator-() const { return -x; }
};

struct OneLane {
  using Float = Apart;
  using Word = uint32_t;
  using Integer = int32_t;
  __device__ static Apart to_float(int32_t x) { return static_cast<float>(x); }
  __device__ static Apart root(Apart x) { return __fsqrt_rn(x.x); }
};

/// The two numbers of two words.
__device__ void pair_of(uint32_t uniform, uint32_t angle, float deviation, float (&to)[2]) {
  const NormalPair<OneLane> made(uniform, angle, deviation);
  to[0] = made.first.x;
  to[1] = made.second.x;
}
/// Normal numbers in double precision by the library's functions: for tests.
__device__ void pair_of(uint32_t uniform, uint32_t angle, float deviation, double (&to)[2]) {
  const double radius = deviation * sqrt(-2 * log((uniform + 0.5) * 0x1p-32));
  sincospi(angle * 0x1p-31, &to[1], &to[0]);
  to[0] *= radius;
  to[1] *= radius;
}

/// The numbers of a group.
template <class A>
__device__ void normals(const RandomStream& stream, uint64_t group, float deviation, A (&to)[4]) {
  const Philox::Words words = Philox::generate(stream, group);
  A first[2], second[2];
  pair_of(words[0], words[1], deviation, first);
  pair_of(words[2], words[3], deviation, second);
  to[0] = first[0], to[1] = first[1], to[2] = second[0], to[3] = second[1];
}

/// `in_packs` says whether eight elements in a row are two whole groups.
template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads)
    draw(T* x, int64_t size, float deviation, RandomStream stream, GlobalIndex index,
         bool in_packs) {
  using A = Accumulator<T>;
  constexpr int per_group = 4;
  each_pack(size, [=](int64_t i, int64_t count) {
    A v[pack], group[per_group];
    if (in_packs) {
      const uint64_t first = static_cast<uint64_t>(position(index, i)) / per_group;
#pragma unroll
      for (int half = 0; half < pack / per_group; ++half) {
        normals(stream, first + half, deviation, group);
#pragma unroll
        for (int e = 0; e < per_group; ++e) v[half * per_group + e] = group[e];
      }
    } else {
      uint64_t made = ~uint64_t{0};
#pragma unroll
      for (int e = 0; e < pack; ++e) {
        const auto at = static_cast<uint64_t>(position(index, i + e));
        if (at / per_group != made) normals(stream, made = at / per_group, deviation, group);
        const auto k = static_cast<int>(at % per_group);
        v[e] = k == 0 ? group[0] : k == 1 ? group[1] : k == 2 ? group[2] : group[3];
      }
    }
    store<wide>(x + i, count, v);
  });
}

}  // namespace

template <>
void run(const RandomNormal& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x), [&]<class T, class Wide>(T, Wide) {
    launch(on, draw<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), size, op.deviation, op.stream, op.index, keeps_packs(op.index));
  });
}

}  // namespace frugal::kernels::cuda
