#pragma once
#include <memory>
#include <vector>

#include "engine/cluster.h"
#include "harness/statistics.h"

namespace frugal {

/// c = a · b of random square matrices on the CPU device.
class SquareGemm {
 public:
  SquareGemm(DType type, int64_t size, int threads);

  int64_t size() const { return gemm_.a.cols(); }
  double flops() const { return gemm_.cost().flops; }
  /// Seconds that one execution took.
  double run();

 private:
  std::unique_ptr<Cluster> cluster_;
  Tensor a_, b_, c_;
  Gemm gemm_;
};

/// What this processor reaches in practice.
struct GemmRate {
  DType type = DType::f32;
  int64_t size = 0;             ///< of the square matrices
  double flops_per_second = 0;  ///< median
  Interval interval;            ///< of the median, 95 %
  std::vector<double> seconds;  ///< samples, at least TimingPlan::minimum
};
struct CopyRate {
  int64_t bytes = 0;            ///< read and written
  double bytes_per_second = 0;  ///< median
  Interval interval;
  std::vector<double> seconds;
};

/// The sizes whose rates `frugal peak` shows and the measured peak is the best of. Smaller ones for
/// float64, whose products are plain loops that only tests need.
std::vector<int64_t> gemm_sizes(DType type);
/// The rate of each size, all measured by turns (harness/timing.h).
std::vector<GemmRate> gemm_rates(DType type, int threads);
/// *The* measured peak, wherever one is named: the largest median rate over gemm_sizes().
const GemmRate& measured_peak(const std::vector<GemmRate>& rates);
/// measured_peak() of gemm_rates(): what MFU and HFU against the measured peak divide by.
GemmRate gemm_peak(DType type, int threads);
/// Copies far more than the caches hold.
CopyRate copy_rate(int threads);

}  // namespace frugal
