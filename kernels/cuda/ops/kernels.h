#pragma once
#include "kernels/cuda/ops/launch.h"
#include "kernels/operations.h"

namespace frugal::kernels::cuda {

/// Issues an operation's kernels to launch.stream and returns. Each operation defines it in this
/// folder. Any address that is aligned to its type and any number of columns works; addresses
/// aligned to 16 bytes and columns in multiples of 8 are fast. Sums have an order that depends on
/// shapes and on the number of multiprocessors only.
template <OwnKernel Op>
void run(const Op& op, const Launch& on);

}  // namespace frugal::kernels::cuda
