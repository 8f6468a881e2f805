#pragma once
#include <type_traits>
#include <vector>

#include "engine/plan/walk.h"

namespace frugal::engine {

/// Microbatches after which most pipelines of so many stages do the same again and again.
inline int64_t settled_after(const ScheduleKind& kind, int64_t stages) {
  return (kind.flushes ? 4 : 3) * stages;
}

/// Walks of a run: of all its microbatches, or of some that are enough for most pipelines to
/// settle, and of fewer.
struct Walks {
  std::vector<Walk> each;
  int64_t all = 1;                        ///< microbatches of the run
  std::vector<WalkSeconds> busiest = {};  ///< of each

  bool whole() const { return each.size() == 1; }
  /// What it is of all, where it is `of(i)` of each: as much more for each microbatch as between
  /// the two.
  template <class Of>
  auto extended(const Of& of) const {
    const auto of_most = of(0);
    if (whole()) return of_most;
    using Number = std::remove_const_t<decltype(of_most)>;
    const int most = each[0].microbatches, steps = most - each[1].microbatches;
    return of_most +
           (of_most - of(1)) * static_cast<Number>(all - most) / static_cast<Number>(steps);
  }
  /// Whether each microbatch more takes what a stage computes for it, or more. A stage that has
  /// waited so far, and will not for ever, makes all that follow take longer than those before.
  bool settled(const std::vector<WalkTime>& times) const {
    if (whole()) return true;
    const double computes = busiest[0].device - busiest[1].device, rounding = 1e-9 * computes;
    return times[0].passes - times[1].passes >= computes - rounding &&
           times[0].seconds() - times[1].seconds() >= computes - rounding;
  }
};

}  // namespace frugal::engine
