#pragma once
#include "engine/model/parameter.h"
#include "engine/model/randomness.h"

namespace frugal {

/// A u8 mask to be written by a forward pass and kept, where the run stores masks and dropout is
/// active; otherwise empty, and the mask is regenerated in backward.
Tensor mask_for(Rank& rank, const Shape& shape, const Dropout& dropout);

/// residual + dropout(x + bias); x and residual [s/t, b, h]. The mask is kept in `mask`.
Tensor add_dropped(Rank& rank, const Tensor& x, const Parameter& bias, const Tensor& residual,
                   Tensor& mask, const Dropout& dropout);

/// The gradient of x; the bias's is added to it.
Tensor undo_dropped(Rank& rank, const Tensor& dy, const Tensor& mask, const Parameter& bias,
                    const Dropout& dropout);

}  // namespace frugal
