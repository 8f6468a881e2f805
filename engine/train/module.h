#pragma once
#include <cstdint>

#include "engine/namespace.h"

namespace frugal::engine {

/// A module that is run alone: a transformer layer (tables 2 and 4 of korthikanti2022), its MLP, or
/// the output layer with cross-entropy (tables 13 to 16 of mst2024).
enum class Module : uint8_t { layer, mlp, output_layer };
constexpr Names names_of(Module) { return {"layer", "mlp", "output_layer"}; }

}  // namespace frugal::engine
