#pragma once
#include <string_view>
#include <vector>

#include "harness/peaks/peak.h"

namespace frugal::harness {

/// What a collective reaches. The value is bus bandwidth: the bytes that each link has to carry,
/// whatever the algorithm, per second. So it can be compared with a link's, at any number of ranks.
struct CollectiveRate : Rate {
  std::string_view name;  ///< "all-reduce"
  int ranks = 0;
  int64_t bytes = 0;  ///< the whole buffer's: what is reduced, gathered, or scattered
  double factor = 0;  ///< of them that cross each link: 2 (n − 1) / n, or half of it
};

/// All-reduce, all-gather and reduce-scatter of bf16 numbers by this many ranks of the target, from
/// 1 MiB on in steps of four up to `largest` bytes; all measured by turns. Throws InputError where
/// there are not as many ranks, or nothing that connects them.
std::vector<CollectiveRate> collective_rates(const Target& target, int ranks,
                                             int64_t largest = int64_t{1} << 30);

}  // namespace frugal::harness
