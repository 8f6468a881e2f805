#pragma once
#include "engine/pass.h"

namespace frugal::engine {

/// Copy of the elements in memory of their own, of this type: what a program makes that its
/// technique does not need (engine/program/program.h).
inline Tensor copied(const Pass& pass, const Tensor& x, DType type) {
  Tensor y = pass.allocate(type, x.shape());
  pass.run(Copy{x.view().matrix(), y.view().matrix()});
  return y;
}
inline Tensor copied(const Pass& pass, const Tensor& x) { return copied(pass, x, x.type()); }

}  // namespace frugal::engine
