#pragma once
#include <cuda_bf16.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/ops/launch.h"
#include "kernels/view.h"

/// Memory in packs of eight elements: what a thread works on at a time, 16 bytes of bf16, and one
/// group of dropout's random bits. Arithmetic is in accumulation type.
namespace frugal::kernels::cuda {

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline constexpr int pack = 8;

__device__ inline float to_wide(Bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }
__device__ inline float to_wide(float x) { return x; }
__device__ inline double to_wide(double x) { return x; }

template <class T, class A>
__device__ inline T to_stored(A x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    Bf16 y;
    y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(static_cast<float>(x)));
    return y;
  } else {
    return static_cast<T>(x);
  }
}

/// Eight elements as they lie in memory, in whole registers. As elements of 16 bits the compiler
/// would take them apart right after each load, and wait for one before it asks for the next.
template <class T>
struct alignas(16) Packed {
  static constexpr bool halves = sizeof(T) == 2;
  using Word = std::conditional_t<halves, uint32_t, T>;
  Word word[pack * sizeof(T) / sizeof(Word)];

  /// `from` is aligned to 16 bytes.
  __device__ void read(const T* from) { *this = *reinterpret_cast<const Packed*>(from); }
  /// Writes memory of any kind; put() writes global memory alone.
  __device__ void write(T* to) const { *reinterpret_cast<Packed*>(to) = *this; }
  __device__ void set(const T (&x)[pack]) {
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      if constexpr (!halves)
        word[e] = x[e];
      else if (e % 2 == 1)
        word[e / 2] = uint32_t{x[e - 1].bits} | uint32_t{x[e].bits} << 16;
    }
  }
  __device__ T at(int e) const {
    if constexpr (halves) {
      T x;
      x.bits = static_cast<uint16_t>(word[e / 2] >> (e % 2 * 16));
      return x;
    } else {
      return word[e];
    }
  }
  template <class A>
  __device__ void get(A (&x)[pack]) const {
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      if constexpr (halves)  // the upper one needs no shift
        x[e] = __uint_as_float(e % 2 == 0 ? word[e / 2] << 16 : word[e / 2] & 0xffff0000U);
      else
        x[e] = word[e];
    }
  }
  /// Makes the compiler forget that it has converted these elements before. Else it may keep them
  /// as converted from one use to the next, in twice the registers.
  __device__ void between_uses() {
    if constexpr (halves) {
#pragma unroll
      for (auto& w : word) asm volatile("" : "+r"(w));
    }
  }
};

/// Writes 16 bytes of global memory by one instruction. Of an assignment the compiler may make a
/// store for each element, even where a vector is assigned.
__device__ inline void put_line(uint4* to, uint4 line) { __stwb(to, line); }

/// from[0 … count), then zeros, converted only where they are needed: so several can be on their
/// way at once in few registers. Wide: count is 8 and `from` aligned to 16 bytes.
template <bool wide, class T>
__device__ inline Packed<T> fetch(const T* from, int64_t count) {
  Packed<T> x;
  if constexpr (wide) {
    x.read(from);
  } else {
    T element[pack];
#pragma unroll
    for (int e = 0; e < pack; ++e) element[e] = e < count ? from[e] : T{};
    x.set(element);
  }
  return x;
}
/// to[0 … count) := x, bit for bit.
template <bool wide, class T>
__device__ inline void put(T* to, int64_t count, const Packed<T>& x) {
  if constexpr (wide) {
    struct Lines {
      uint4 line[sizeof(Packed<T>) / sizeof(uint4)];
    };
    const auto lines = std::bit_cast<Lines>(x);
#pragma unroll
    for (size_t i = 0; i < sizeof(Packed<T>) / sizeof(uint4); ++i)
      put_line(reinterpret_cast<uint4*>(to) + i, lines.line[i]);
  } else {
#pragma unroll
    for (int e = 0; e < pack; ++e)
      if (e < count) to[e] = x.at(e);
  }
}

/// x := from[0 … count), the rest `otherwise`. Wide as for fetch().
template <bool wide, class T, class A>
__device__ inline void load(const T* from, int64_t count, A (&x)[pack], A otherwise = A{0}) {
  if constexpr (wide) {
    fetch<wide>(from, count).get(x);
  } else {
#pragma unroll
    for (int e = 0; e < pack; ++e) x[e] = e < count ? A(to_wide(from[e])) : otherwise;
  }
}

/// Two neighbours as they lie in memory: both conversions are one instruction.
__device__ inline uint32_t two_stored(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return uint32_t{__bfloat16_as_ushort(two.x)} | uint32_t{__bfloat16_as_ushort(two.y)} << 16;
}

/// to[0 … count) := x. Wide as for fetch().
template <bool wide, class T, class A>
__device__ inline void store(T* to, int64_t count, const A (&x)[pack]) {
  if constexpr (wide && std::is_same_v<T, Bf16>) {
    put_line(reinterpret_cast<uint4*>(to), uint4{two_stored(x[0], x[1]), two_stored(x[2], x[3]),
                                                 two_stored(x[4], x[5]), two_stored(x[6], x[7])});
  } else if constexpr (wide) {
    Packed<T> y;
#pragma unroll
    for (int e = 0; e < pack; ++e) y.word[e] = to_stored<T>(x[e]);
    put<wide>(to, count, y);
  } else {
#pragma unroll
    for (int e = 0; e < pack; ++e)
      if (e < count) to[e] = to_stored<T>(x[e]);
  }
}

/// Number of this thread, and count of threads, in the whole grid.
__device__ inline int64_t grid_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t grid_threads() { return int64_t{gridDim.x} * blockDim.x; }

/// True where every row of these views can be read and written 16 bytes at a time, eight elements
/// each; empty views can.
template <class... Views>
bool all_wide(int64_t cols, const Views&... views) {
  const auto aligned = [](const View& view) {
    return reinterpret_cast<uintptr_t>(view.data) % (view.type == DType::u8 ? 8 : 16) == 0;
  };
  return cols % pack == 0 && (aligned(views) && ...);
}

/// f(T{}, std::bool_constant<wide>) for the type that elements are stored as.
template <class F>
void dispatch(DType type, bool wide, const F& f) {
  const auto with_width = [&](auto tag) {
    if (wide)
      f(tag, std::true_type{});
    else
      f(tag, std::false_type{});
  };
  switch (type) {
    case DType::bf16:
      return with_width(Bf16{});
    case DType::f64:
      return with_width(double{});
    default:
      return with_width(float{});
  }
}

/// f(T{}) or f(Accumulator<T>{}) for an operand of this type, which is one of the two.
template <class T, class F>
void dispatch_either(DType type, const F& f) {
  if constexpr (!std::is_same_v<T, Accumulator<T>>)
    if (type == dtype_of<T>) return f(T{});
  f(Accumulator<T>{});
}

}  // namespace frugal::kernels::cuda
