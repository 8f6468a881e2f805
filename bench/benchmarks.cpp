#include "bench/benchmarks.h"

namespace frugal::bench {

Benchmarks all_benchmarks() {
#define FRUGAL_LISTED(name) &name(),
  return {FRUGAL_BENCHMARKS(FRUGAL_LISTED)};
#undef FRUGAL_LISTED
}

}  // namespace frugal::bench
