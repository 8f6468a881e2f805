#pragma once
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// What docs/programs.md says: what a program is, all behaviours, and of each program of programs/
/// what it has and how that is known.
std::string programs_markdown();

}  // namespace frugal::harness
