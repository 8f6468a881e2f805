#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace frugal::testing {

/// The same input with another value somewhere in its JSON: of the whole, of one line, or of a
/// safetensors file's header. None where it has no JSON. Single bytes rarely make one number of
/// another, and hardly ever two equal keys.
std::optional<std::string> with_other_json(std::string_view input, uint32_t seed);

}  // namespace frugal::testing
