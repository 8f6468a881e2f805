#pragma once
#include "kernels/view.h"

namespace frugal::kernels {

/// What an operation cannot avoid. `flops` counts matrix multiplications only, as the papers do;
/// `bytes` moves every operand once (twice what is both read and written).
struct Cost {
  double flops = 0;
  double bytes = 0;
};

namespace detail {
template <class... Views>
double bytes_of(const Views&... views) {
  return static_cast<double>((views.bytes() + ... + int64_t{0}));
}
/// Bytes of the elements in memory, each once: a stride of 0 repeats them.
inline double distinct_bytes_of(const View& view) {
  int64_t bytes = view.bytes();
  for (int i = 0; i < view.shape.dims; ++i)
    if (view.stride[static_cast<size_t>(i)] == 0 && view.shape[i] > 0) bytes /= view.shape[i];
  return static_cast<double>(bytes);
}
}  // namespace detail

}  // namespace frugal::kernels
