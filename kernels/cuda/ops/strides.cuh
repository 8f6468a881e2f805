#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::kernels::cuda {

/// True where a step of so many elements is a multiple of 16 bytes.
inline bool step_wide(int64_t elements, DType type) { return elements * size_of(type) % 16 == 0; }

/// True where every row of a view with any strides, of which the last is 1, begins a multiple of 16
/// bytes behind its first one.
inline bool rows_wide(const View& view) {
  bool wide = true;
  for (int i = 0; i + 1 < view.shape.dims; ++i)
    wide =
        wide && (view.shape[i] == 1 || step_wide(view.stride[static_cast<size_t>(i)], view.type));
  return wide;
}

}  // namespace frugal::kernels::cuda
