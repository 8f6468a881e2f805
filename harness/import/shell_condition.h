#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// Whether what stands between `if` and `then` is true, of its words with "&&", "||" and "!" among
/// them: comparisons of texts and numbers in brackets. None where it takes more to know it, such as
/// a file or what a command prints.
std::optional<bool> shell_condition(const std::vector<std::string>& words);

}  // namespace frugal::harness
