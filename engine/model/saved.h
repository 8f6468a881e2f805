#pragma once
#include <functional>
#include <vector>

#include "engine/pass.h"

namespace frugal::engine {

/// Marks a tensor as kept from this forward pass for the backward pass: from now on its bytes are
/// activation memory at the pass's place. Structs named …Saved hold everything so marked.
inline const Tensor& keep(const Pass& pass, const Tensor& x) {
  return x.labelled(Kind::activation, pass.place);
}

/// A tensor of a struct named …Saved, which may be empty, and what it is part of.
struct KeptTensor {
  LayerModule module;
  Tensor* tensor;
};
using KeptTensors = std::vector<KeptTensor>;

/// Recomputation of a tensor that a forward pass has not kept.
using Rematerialized = std::function<Tensor()>;

}  // namespace frugal::engine
