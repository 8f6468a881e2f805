#include "harness/peaks/repeated.h"

#include <algorithm>
#include <cmath>

namespace frugal::harness {
namespace {

/// Beyond it, what is timed takes no time at all.
constexpr int most_repeats = 1 << 20;

int repetitions_for(const std::function<double(int)>& sample, double shortest) {
  if (shortest > 0) sample(1);  // pays for what is done once
  for (int n = 1;;) {
    const double seconds = sample(n);
    if (seconds >= shortest || n >= most_repeats) return n;
    // At least twice as many: one execution alone may take longer than each of many.
    const double wanted = 1.1 * n * shortest / std::max(seconds, 1e-12);
    n = static_cast<int>(std::clamp(std::ceil(wanted), 2.0 * n, double{most_repeats}));
  }
}

}  // namespace

double Repeated::run() {
  if (repetitions_ == 0) repetitions_ = repetitions_for(sample_, shortest_);
  return sample_(repetitions_) / repetitions_;
}

}  // namespace frugal::harness
