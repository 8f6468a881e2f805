#pragma once
#include <algorithm>
#include <utility>

#include "engine/namespace.h"

namespace frugal::engine {

/// Seconds of a message from one stage to another.
struct LinkCost {
  double alone = 0;     ///< while nothing goes the opposite way
  double beside = 0;    ///< while another message does
  double buffered = 0;  ///< before its end, from which on its sender can do without it
  double gather = 0;    ///< in which the receiving ranks put it together

  double seconds() const { return alone + gather; }
};

/// A message on its way, which begins when both ends are ready for it.
struct Crossing {
  double begin = 0;  ///< seconds on the devices' clocks
  LinkCost cost = {};

  double end() const { return begin + cost.alone; }
  /// The moment at which its sender can do without a message that ends then.
  double sender_is_through(double at_end) const { return std::max(begin, at_end - cost.buffered); }
};

/// Ends of two messages between the same two ranks, in opposite directions: as long as both are
/// under way they slow each other.
std::pair<double, double> ends_of_both(const Crossing& a, const Crossing& b);

}  // namespace frugal::engine
