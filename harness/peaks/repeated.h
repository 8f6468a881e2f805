#pragma once
#include <functional>

#include "harness/namespace.h"

namespace frugal::harness {

/// Times something so short that one execution cannot be told from the clock and from waiting for
/// the device: as often in a row as makes a sample long enough.
class Repeated {
 public:
  /// `sample(n)` executes n times in a row and returns the seconds of all of them; `shortest` is
  /// how long a sample has to last, 0 for one execution each.
  Repeated(std::function<double(int)> sample, double shortest)
      : sample_(std::move(sample)), shortest_(shortest) {}

  /// Seconds of one execution, the mean of a sample. The first call finds out how many executions
  /// a sample has.
  double run();
  /// Executions of each sample; 0 before the first.
  int repetitions() const { return repetitions_; }

 private:
  std::function<double(int)> sample_;
  double shortest_;
  int repetitions_ = 0;
};

}  // namespace frugal::harness
