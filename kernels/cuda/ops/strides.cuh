#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::FRUGAL_CUDA {

/// Whether every row of a view with any strides, of which the last is 1, begins where 16 bytes do
/// from its first one on.
inline bool rows_wide(const View& view) {
  const int64_t line = 16 / size_of(view.type);
  bool wide = true;
  for (int i = 0; i + 1 < view.shape.dims; ++i)
    wide = wide && (view.shape[i] == 1 || view.stride[static_cast<size_t>(i)] % line == 0);
  return wide;
}

}  // namespace frugal::FRUGAL_CUDA
