#pragma once
#include "kernels/cpu/simd/simd.h"

namespace frugal::kernels::FRUGAL_SIMD {

/// The numbers of a vector, for what kernels/normal.h computes.
struct FloatLanes {
  using Float = Vec<float>;
  using Word = U32;
  using Integer = VectorN<int32_t, floats>;
  static Float to_float(Integer x) { return convert<Float>(x); }
  static Float root(Float x) { return square_root(x); }
};

}  // namespace frugal::kernels::FRUGAL_SIMD
