#pragma once
#include <memory>
#include <vector>

#include "engine/cluster/cluster.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/peaks/products.h"
#include "harness/peaks/repeated.h"
#include "harness/place/device_kind.h"

/// What a device reaches in practice. Operands are random normal numbers: products of zeros or
/// denormals may be faster or slower.
namespace frugal::harness {

class Target;

/// How every rate is timed.
inline constexpr TimingPlan rate_timing{.warm_up = 2, .samples = TimingPlan::minimum, .budget = 0};

/// c [m, n] = a [m, k] · b [k, n].
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool square() const { return m == n && n == k; }
  Product product() const { return {.m = m, .n = n, .k = k}; }
};

/// A device of the target alone, without peers.
std::unique_ptr<Cluster> one_rank(const Target& target);

/// Seconds that a sample of a rate lasts at least: where issuing and executing are two things, a
/// sample has to be long beside them; 0, one execution, elsewhere.
double shortest_sample(const Target& target);

/// These operations, one after another and again from the first, n between two synchronisations.
/// The device must outlive it.
Repeated repeated_in_turn(Device& device, std::vector<Operation> operations, double shortest);

/// A matrix product that can be timed. The rank must outlive it.
class TimedGemm {
 public:
  TimedGemm(Rank& rank, DType type, const Product& product, double shortest);
  TimedGemm(Rank& rank, DType type, const GemmShape& shape, double shortest)
      : TimedGemm(rank, type, shape.product(), shortest) {}

  double flops() const { return gemm_.cost().flops; }
  /// Seconds that one execution took.
  double run() { return timed_.run(); }
  int repetitions() const { return timed_.repetitions(); }

 private:
  Tensor a_, b_, c_;
  Gemm gemm_;
  Repeated timed_;
};

/// Samples of seconds, and the rate they come to.
struct Rate {
  double value = 0;             ///< median of work per second
  Interval interval;            ///< of the median, 95 %
  int repetitions = 1;          ///< executions of which each sample is the mean
  std::vector<double> seconds;  ///< of one execution; at least TimingPlan::minimum

  void set(double work);
};

struct GemmRate : Rate {  ///< FLOP/s
  DType type = DType::f32;
  GemmShape shape;
};
struct LinearRate : Rate {  ///< FLOP/s
  DType type = DType::f32;
  Product product;
};
struct CopyRate : Rate {  ///< bytes/s
  int64_t bytes = 0;      ///< read and written
};
/// Time of an operation that hardly does anything, one of many in a row.
struct LaunchTime {
  static constexpr int operations = 1000;
  Estimate each;   ///< seconds from one to the next on the device
  Estimate issue;  ///< seconds that the host takes to issue one
};

/// What `frugal peak` shows and the measured peak is the best of: squares, and on a GPU the
/// products of a layer of the 22B model on eight devices and on one. Small ones for float64, whose
/// products are plain loops on the processor, which only tests need.
std::vector<GemmShape> gemm_shapes(DeviceKind on, DType type);
std::vector<GemmShape> gemm_shapes(const Target& target, DType type);
/// The rate of each shape, all measured by turns (harness/measure/timing.h).
std::vector<GemmRate> gemm_rates(DType type, const Target& target);
/// *The* measured peak, wherever one is named: the largest median rate over gemm_shapes().
const GemmRate& measured_peak(const std::vector<GemmRate>& rates);
/// measured_peak() of gemm_rates(), as `value`: what MFU and HFU against the measured peak divide
/// by, for each device.
GemmRate gemm_peak(DType type, const Target& target);
/// Layers of models that train on one GPU; on the processor a small one.
std::vector<LinearSize> linear_sizes(DeviceKind on);
/// products_of() each, all measured by turns.
std::vector<LinearRate> linear_rates(DType type, const Target& target);
/// Copies far more than the caches hold.
CopyRate copy_rate(const Target& target);
/// Launch of a kernel that fills an element.
LaunchTime launch_time(const Target& target);
/// Launch of a small product, which the library looks up, configures and launches.
LaunchTime product_launch_time(const Target& target);

}  // namespace frugal::harness
