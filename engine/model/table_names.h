#pragma once
#include "engine/namespace.h"

namespace frugal::engine {

/// Parameters: the table that the embedding reads, and the output layer's own where a model does
/// not tie it to that.
inline constexpr const char* token_table = "embedding.token";
inline constexpr const char* output_table = "output.token";

}  // namespace frugal::engine
