#pragma once
#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// One of so many equal parts of a view's elements: what a collective has for one rank.
inline View part_of(const View& whole, int64_t part, int64_t parts) {
  const int64_t count = whole.size() / parts;
  return whole.flat().sliced(0, part * count, count);
}

}  // namespace frugal::engine
