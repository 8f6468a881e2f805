#pragma once
#include "engine/rank.h"

namespace frugal {

/// Marks a tensor as kept from the forward for the backward pass: its bytes are activation memory
/// from now on. Structs named …Saved hold everything so marked.
inline const Tensor& keep(const Tensor& x) { return x.labelled(Kind::activation); }

}  // namespace frugal
