#include "kernels/cpu/simd/rows.h"
#include "kernels/rounding.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

template <class T>
void fill(const View& view, T value) {
  auto* const x = static_cast<T*>(view.data);
  parallel_pieces(view.size(),
                  [=](int64_t first, int64_t count) { std::fill_n(x + first, count, value); });
}

template <class From, class To>
void convert_elements(const From* x, To* y, int64_t size, bool past) {
  if constexpr (std::is_same_v<Accumulator<From>, Accumulator<To>>) {
    parallel_map(size, y, past, [=](int64_t i, int64_t count) {
      return load<Vec<Accumulator<From>>>(x + i, count);
    });
  } else {
    parallel_pieces(size, [=](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) {
        if constexpr (std::is_same_v<From, double> && std::is_same_v<To, Bf16>)
          y[i] = Bf16(rounded_to_odd(x[i]));
        else
          y[i] = To(static_cast<Accumulator<To>>(static_cast<Accumulator<From>>(x[i])));
      }
    });
  }
}

}  // namespace

template <>
void run(const Sum& op) {
  constexpr int64_t chunk = 4096;
  const int64_t size = op.x.size(), chunks = (size + chunk - 1) / chunk;
  auto* const partial = static_cast<double*>(
      scratch(Scratch::partial_sums, static_cast<size_t>(chunks) * sizeof(double)));
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* const x = op.x.as<T>();
    parallel(chunks, chunk, [&](int64_t c) {
      const T* const from = x + c * chunk;
      partial[c] = sum<A>(std::min(chunk, size - c * chunk), [&](int64_t j, int64_t count) {
        const auto v = load<Vec<A>>(from + j, count);
        return op.squared ? v * v : v;
      });
    });
  });
  double total = 0;
  for (int64_t c = 0; c < chunks; ++c) total += partial[c];
  *op.total.as<double>() += total;
}

template <>
void run(const Fill& op) {
  switch (op.x.type) {
    case DType::f32:
      return fill(op.x, op.value);
    case DType::bf16:
      return fill(op.x, Bf16(op.value).bits);
    case DType::f64:
      return fill(op.x, static_cast<double>(op.value));
    case DType::u8:
      return fill(op.x, static_cast<uint8_t>(op.value));
    case DType::i32:
      return fill(op.x, static_cast<int32_t>(op.value));
  }
}

template <>
void run(const Convert& op) {
  by_type(op.x.type, [&]<class From>(From) {
    by_type(op.y.type, [&]<class To>(To) {
      convert_elements(op.x.as<From>(), op.y.as<To>(), op.x.size(), past_cache(op.y, op.x));
    });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
