#include <cstring>

#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/rounding.h"

namespace frugal::kernels::cuda {
namespace {

constexpr int64_t line = 16;  // bytes that are written at a time

/// Elements up to the next multiple of 16 bytes.
template <class T>
__device__ int64_t before_line(const T* x, int64_t size) {
  const auto over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x) % line);
  const int64_t elements = over == 0 ? 0 : (line - over) / static_cast<int64_t>(sizeof(T));
  return elements < size ? elements : size;
}

/// `copies` has the value as often as fits 16 bytes.
template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    write_all(T* x, T value, uint4 copies, int64_t size) {
  constexpr int64_t per_line = line / static_cast<int64_t>(sizeof(T));
  const int64_t head = before_line(x, size), lines = (size - head) / per_line;
  const int64_t thread = grid_thread(), threads = grid_threads();
  auto* const to = reinterpret_cast<uint4*>(x + head);
#pragma unroll 4
  for (int64_t i = thread; i < lines; i += threads) to[i] = copies;
  for (int64_t i = thread; i < head; i += threads) x[i] = value;
  for (int64_t i = head + lines * per_line + thread; i < size; i += threads) x[i] = value;
}

template <class T>
void fill(const Launch& on, const View& view, T value) {
  constexpr int64_t per_block = int64_t{elementwise_threads} * line / int64_t{sizeof(T)};
  T values[line / sizeof(T)];
  for (T& copy : values) copy = value;
  uint4 copies;
  static_assert(sizeof(copies) == sizeof(values));
  std::memcpy(&copies, values, sizeof(copies));
  const int64_t size = view.size();
  launch(on, write_all<T>, blocks_for(on, (size + per_block - 1) / per_block, 32),
         elementwise_threads, static_cast<T*>(view.data), value, copies, size);
}

template <class To, class From>
__device__ Accumulator<To> converted(From x) {
  if constexpr (std::is_same_v<From, double> && std::is_same_v<To, Bf16>)
    return rounded_to_odd(x);
  else
    return static_cast<Accumulator<To>>(x);
}

template <bool wide, class From, class To>
__global__ void __launch_bounds__(elementwise_threads) convert(const From* x, To* y, int64_t size) {
  each_pack<2>(
      size, [=](int64_t i, int64_t count) { return fetch<wide>(x + i, count); },
      [=](int64_t i, int64_t count, const Packed<From>& held) {
        Accumulator<From> from[pack];
        Accumulator<To> to[pack];
        held.get(from);
#pragma unroll
        for (int e = 0; e < pack; ++e) to[e] = converted<To>(from[e]);
        store<wide>(y + i, count, to);
      });
}

}  // namespace

template <>
void run(const Fill& op, const Launch& on) {
  switch (op.x.type) {
    case DType::f32:
      return fill(on, op.x, op.value);
    case DType::bf16:
      return fill(on, op.x, Bf16(op.value).bits);
    case DType::f64:
      return fill(on, op.x, static_cast<double>(op.value));
    case DType::u8:
      return fill(on, op.x, static_cast<uint8_t>(op.value));
    case DType::i32:
      return fill(on, op.x, static_cast<int32_t>(op.value));
  }
}

template <>
void run(const Convert& op, const Launch& on) {
  const int64_t size = op.x.size();
  if (op.x.type == op.y.type) return run(Copy{op.x.flat(), op.y.flat()}, on);
  dispatch(op.x.type, all_wide(size, op.x, op.y), [&]<class From, class Wide>(From, Wide) {
    dispatch(op.y.type, Wide::value, [&]<class To, class Same>(To, Same) {
      if constexpr (Same::value == Wide::value && !std::is_same_v<From, To>)
        launch(on, convert<Wide::value, From, To>, elementwise_blocks(on, size),
               elementwise_threads, op.x.as<From>(), op.y.as<To>(), size);
    });
  });
}

}  // namespace frugal::kernels::cuda
