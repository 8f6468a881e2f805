#pragma once
#include "kernels/view.h"

namespace frugal {

/// What an operation cannot avoid. `flops` counts matrix multiplications only, as the papers do;
/// `bytes` moves every operand once (twice what is both read and written).
struct Cost {
  double flops = 0;
  double bytes = 0;
};

namespace detail {
template <class... Views>
double bytes_of(const Views&... views) {
  return static_cast<double>((views.bytes() + ... + int64_t{0}));
}
}  // namespace detail

}  // namespace frugal
