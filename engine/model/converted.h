#pragma once
#include "engine/rank.h"

namespace frugal {

/// x as this type: itself where it has it.
inline Tensor converted(Rank& rank, const Tensor& x, DType type) {
  if (x.type() == type) return x;
  Tensor y = rank.allocate(type, x.shape());
  rank.run(Convert{x, y});
  return y;
}

}  // namespace frugal
