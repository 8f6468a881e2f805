#include "harness/measure/timing.h"

#include <algorithm>
#include <chrono>

#include "harness/measure/interrupt.h"

namespace frugal::harness {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock) {
  const double start = clock();
  const int wanted = std::max(plan.samples, TimingPlan::minimum);
  for (int round = -plan.warm_up;; ++round) {
    if (round >= wanted) return round;
    if (round >= TimingPlan::minimum && clock() - start >= plan.budget) return round;
    for (const auto& run : cases) {
      stop_if_interrupted();
      run(round >= 0);
    }
  }
}

}  // namespace frugal::harness
