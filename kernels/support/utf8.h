#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace frugal::kernels {

/// Where the first byte is that is no part of a character in UTF-8 (RFC 3629); none where all are.
/// What is written as JSON has to be UTF-8.
std::optional<size_t> first_not_utf8(std::string_view text);

}  // namespace frugal::kernels
