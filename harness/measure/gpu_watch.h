#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "harness/measure/case.h"
#include "harness/measure/timing.h"
#include "harness/place/gpu_state.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// GPUs' states at some moments, one list for each.
struct GpuMoments {
  double at = 0;  ///< seconds of steady_seconds()
  std::vector<GpuMoment> gpus;
};

/// Sums up what the moments inside these windows say of the GPUs of these indices.
GpuLoads load_in(const std::vector<GpuMoments>& moments, const std::vector<TimeWindow>& windows,
                 const std::vector<int>& gpus);

/// Joules that these GPUs together took in a window, by their counters at the moments around it;
/// none where a counter is not known, or the window is too short for it: counters are updated some
/// tens of times a second.
std::optional<double> energy_in(const std::vector<GpuMoments>& moments, const TimeWindow& window,
                                const std::vector<int>& gpus);
inline constexpr double least_energy_window = 0.5;  ///< seconds

/// Adds what a record of a case on GPUs says of them: Record::gpu_load, Utilization::at_clock and,
/// where it is known, metric::joules_per_token. `windows` are those of what is kept of the case's
/// turns, or of its steps.
void add_gpu_load(Record& record, const Case& c, const Target& target,
                  const std::vector<GpuMoments>& moments, const std::vector<TimeWindow>& windows);

/// Asks the driver for the state of all GPUs again and again, in a thread of its own, as long as it
/// lives.
class GpuWatch {
 public:
  static constexpr double period = 0.02;  ///< seconds from one moment to the next

  GpuWatch();
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// All moments so far, the last one now.
  std::vector<GpuMoments> moments();
  /// Drops the moments so far.
  void clear();

 private:
  void look();

  std::mutex mutex_;
  std::vector<GpuMoments> moments_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace frugal::harness
