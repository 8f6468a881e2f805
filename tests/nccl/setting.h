#pragma once
#include <cstdint>

/// Surroundings of tests of NCCL's communicators: emulated GPUs (tests/nccl/emulated), or real ones
/// and the real library (tests/nccl_real). A program links one of them.
namespace frugal::testing {

/// Ranks that there may be: as many as GPUs, or two on one where they may share it.
int most_ranks();

/// Has what is issued from now on happen in another order, where an order can be chosen.
void choose_order(uint64_t seed);

/// True if sums over so many ranks have the bits of those on the CPU: the order of additions is the
/// same, or does not matter.
bool sums_like_cpu(int ranks);

}  // namespace frugal::testing
