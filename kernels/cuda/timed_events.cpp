#include "kernels/cuda/timed_events.h"

#include <utility>

#include "kernels/cuda/check.h"

namespace frugal::kernels::cuda {

TimedEvents::~TimedEvents() {
  forget();
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
}

cudaEvent_t TimedEvents::take() {
  cudaEvent_t event = nullptr;
  if (free_.empty()) {
    check(cudaEventCreate(&event), "cudaEventCreate");
    return event;
  }
  event = free_.back();
  free_.pop_back();
  return event;
}

void TimedEvents::around(cudaStream_t stream, const std::function<void()>& issue,
                         std::function<void(double seconds)> seen) {
  const cudaEvent_t begin = take();
  free_.push_back(begin);  // until it is half of a pair
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  free_.pop_back();
  try {
    issue();
  } catch (...) {
    free_.push_back(begin);
    throw;
  }
  pairs_.push_back({begin, take(), std::move(seen)});
  check(cudaEventRecord(pairs_.back().end, stream), "cudaEventRecord");
}

void TimedEvents::read() {
  const std::vector<Pair> pairs = std::exchange(pairs_, {});
  for (const Pair& pair : pairs) free_.insert(free_.end(), {pair.begin, pair.end});
  for (const Pair& pair : pairs) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, pair.begin, pair.end), "cudaEventElapsedTime");
    pair.seen(1e-3 * static_cast<double>(milliseconds));
  }
}

void TimedEvents::forget() {
  for (const Pair& pair : pairs_) free_.insert(free_.end(), {pair.begin, pair.end});
  pairs_.clear();
}

}  // namespace frugal::kernels::cuda
