#pragma once
#include "engine/pass.h"

namespace frugal::engine {

/// x as this type: itself where it has it.
inline Tensor converted(const Pass& pass, const Tensor& x, DType type) {
  if (x.type() == type) return x;
  Tensor y = pass.allocate(type, x.shape());
  pass.run(Convert{x, y});
  return y;
}

}  // namespace frugal::engine
