#pragma once
#include <string>
#include <string_view>

#include "harness/namespace.h"

namespace frugal::harness {

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace frugal::harness
