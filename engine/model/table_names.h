#pragma once
#include "engine/namespace.h"

namespace frugal::engine {

/// Parameters: the tables that the embedding reads, and the output layer's own where a model does
/// not tie it to that of the tokens.
inline constexpr const char* token_table = "embedding.token";
inline constexpr const char* position_table = "embedding.position";
inline constexpr const char* output_table = "output.token";

}  // namespace frugal::engine
