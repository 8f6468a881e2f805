#pragma once
#include <functional>

#include "engine/pass.h"

namespace frugal::engine {

/// Marks a tensor as kept from this forward pass for the backward pass: from now on its bytes are
/// activation memory at the pass's place. Structs named …Saved hold everything so marked.
inline const Tensor& keep(const Pass& pass, const Tensor& x) {
  return x.labelled(Kind::activation, pass.place);
}

/// Makes again what a forward pass has not kept.
using MadeAgain = std::function<Tensor()>;

}  // namespace frugal::engine
