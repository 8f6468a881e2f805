#pragma once
#include "engine/model/parameter.h"
#include "engine/model/randomness.h"

namespace frugal::engine {

/// A u8 mask to be written by a forward pass and kept, where the run stores masks and dropout is
/// active; otherwise empty, and the mask is regenerated in backward.
Tensor mask_for(const Pass& pass, const Shape& shape, const Dropout& dropout);

/// y = residual + dropout(x + bias). x and y [rows, b, h], and so are residual and mask, or empty;
/// bias may be null. Without anything to add or to drop, x is copied.
void add_dropped(const Pass& pass, const View& x, const Parameter* bias, const View& residual,
                 const View& mask, const View& y, const Dropout& dropout);

/// The gradient of x; the bias's is added to it.
Tensor undo_dropped(const Pass& pass, const Tensor& dy, const View& mask, const Parameter* bias,
                    const Dropout& dropout);

}  // namespace frugal::engine
