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

/// Ranks that share a model's layers, as a collective's members: one of any small model that can be
/// divided among them. Throws InputError where there are not as many.
RunConfig config_of_ranks(int ranks);

/// All-reduce, all-gather and reduce-scatter of bf16 numbers, to be timed by turns with anything
/// else.
class TimedCollectives {
 public:
  /// Whole buffers have at most `largest` bytes. Throws InputError where the target does not have
  /// so many ranks, or nothing that connects them.
  TimedCollectives(const Target& target, int ranks, int64_t largest);

  static const std::vector<std::string_view>& names();
  /// Bytes of a whole buffer of about so many, which the ranks can divide.
  int64_t bytes(int64_t wanted) const;
  /// Share of the bytes that crosses each link.
  double factor(size_t collective) const;
  /// Seconds from the moment all ranks start until the last one ended n of names()[collective].
  double seconds(size_t collective, int64_t bytes, int n);

 private:
  /// A rank's memory: the largest buffer, and its share of one.
  struct Buffers {
    Tensor all, shard;
  };

  int ranks_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<Buffers> buffers_;
};

/// All-reduce, all-gather and reduce-scatter of bf16 numbers by this many ranks of the target, from
/// 1 MiB on in steps of four up to `largest` bytes; all measured by turns. Throws InputError where
/// there are not as many ranks, or nothing that connects them.
std::vector<CollectiveRate> collective_rates(const Target& target, int ranks,
                                             int64_t largest = int64_t{1} << 30);

}  // namespace frugal::harness
