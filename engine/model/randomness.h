#pragma once
#include "engine/pass.h"

/// Which random words belong to what: dropout is a function of seed, microbatch, layer, site and
/// the element's index in the serial run's tensor, whatever the sharding, schedule or
/// recomputation; fused attention on a GPU draws words of its own.
namespace frugal::engine::randomness {

enum class Site : uint32_t { embedding, attention_probabilities, attention_output, mlp_output };

/// No microbatch has this number: the draw of initial weights.
inline constexpr uint32_t initial_draw = 0xffffffffU;

/// Dropout of a hidden state [s or s/t, b, h].
Dropout of_hidden(const Pass& pass, Site site, int layer);
/// Dropout of attention probabilities [b · a/t, s, s].
Dropout of_attention(const Pass& pass, int layer);

}  // namespace frugal::engine::randomness
