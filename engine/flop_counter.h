#pragma once
#include <optional>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// A sum of FLOPs. They are added one by one, and what is added again is added so too: a sum of
/// doubles depends on its order.
class FlopCounter {
 public:
  /// A counter that remembers what it adds.
  static FlopCounter remembering() {
    FlopCounter counter;
    counter.added_.emplace();
    return counter;
  }

  double total() const { return total_; }
  void add(double flops) {
    total_ += flops;
    if (added_ && flops != 0) added_->push_back(flops);
  }
  /// All that the other one remembers.
  void add(const FlopCounter& other) {
    for (const double flops : other.added_.value()) add(flops);
  }

 private:
  double total_ = 0;
  std::optional<std::vector<double>> added_;
};

}  // namespace frugal::engine
