#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// Layers of stages as text: "7+14*8+7" is 7, fourteen times 8, and 7. None where it is no such
/// text: numbers are from 0 to most_layers, and so many at most.
std::optional<std::vector<int64_t>> parse_layer_counts(std::string_view text);
std::string text_of_layer_counts(const std::vector<int64_t>& counts);

}  // namespace frugal::engine
