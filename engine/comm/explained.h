#pragma once
#include <vector>

#include "engine/comm/activity.h"
#include "engine/comm/failure.h"

namespace frugal::engine {

/// Last news of a rank.
struct Heard {
  enum class Of : uint8_t {
    running,
    ended,  ///< it has left, as it should
    others  ///< it speaks to others alone
  };
  Activity::State state = {};
  double at = 0;  ///< activity_clock() here, when it was heard last
  Of of = Of::running;
};

/// The failure that rank `failure.rank` reports, with the rank whose fault it is and what each rank
/// did last.
///
/// A deadline that passed is the fault of a rank that is not heard any more, or else of the one
/// that computes longest while others wait. Wrong numbers are that of the rank that first
/// communicated one that is not finite. Where neither is so it stays the reporter's.
Failure explained(Failure failure, const std::vector<Heard>& ranks, double now);

}  // namespace frugal::engine
