#pragma once
#include "engine/model/parameter.h"

/// Random words of dropout: a function of seed, microbatch, layer, site and the element's index in
/// the serial run's tensor, whatever the sharding, schedule or recomputation; fused attention on a
/// GPU draws words of its own.
namespace frugal::engine::randomness {

enum class Site : uint32_t { embedding, attention_probabilities, attention_output, mlp_output };

/// No microbatch has this number: the draw of initial weights.
inline constexpr uint32_t initial_draw = 0xffffffffU;

/// Dropout of a hidden state [s or s/t, b, h].
Dropout of_hidden(const Pass& pass, Site site, int layer);
/// Dropout of attention probabilities [b · a/t, s, s].
Dropout of_attention(const Pass& pass, int layer);

}  // namespace frugal::engine::randomness

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
