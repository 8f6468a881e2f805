#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/types.h"

namespace frugal {

/// What this processor reaches in practice.
struct GemmRate {
  DType type = DType::f32;
  int64_t size = 0;  ///< of the square matrices
  double flops_per_second = 0;
  std::vector<double> seconds;  ///< samples; the rate is that of the fastest
};
struct CopyRate {
  int64_t bytes = 0;  ///< read and written
  double bytes_per_second = 0;
  std::vector<double> seconds;
};

/// c = a · b of [size, size] on the CPU device.
GemmRate gemm_rate(DType type, int64_t size, int threads);
/// The best of a few sizes: what MFU and HFU against the measured peak divide by.
GemmRate gemm_peak(DType type, int threads);
/// Copies far more than the caches hold.
CopyRate copy_rate(int threads);

}  // namespace frugal
