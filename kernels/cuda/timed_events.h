#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <vector>

namespace frugal::kernels::cuda {

/// Pairs of events around what is issued, read when the host has waited anyhow: nothing stops for
/// them. Events are used again.
class TimedEvents {
 public:
  TimedEvents() = default;
  TimedEvents(const TimedEvents&) = delete;
  TimedEvents& operator=(const TimedEvents&) = delete;
  ~TimedEvents();

  /// Around what `issue` issues to the stream. read() tells `seen` the seconds.
  void around(cudaStream_t stream, const std::function<void()>& issue,
              std::function<void(double seconds)> seen);
  /// Tells the times of all so far, in their order. They have to have ended.
  void read();
  /// Tells nobody of those that were not read.
  void forget();

 private:
  struct Pair {
    cudaEvent_t begin, end;
    std::function<void(double seconds)> seen;
  };
  cudaEvent_t take();

  std::vector<cudaEvent_t> free_;
  std::vector<Pair> pairs_;
};

}  // namespace frugal::kernels::cuda
