#pragma once
#include <cstddef>
#include <functional>

#include "harness/namespace.h"

namespace frugal::harness {

/// work(0), …, work(count − 1), as many at once as there are processors. Throws what the first of
/// them threw, and Interrupted; the others are left out then.
void at_once(size_t count, const std::function<void(size_t)>& work);

}  // namespace frugal::harness
