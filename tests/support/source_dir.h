#pragma once
#include <string>

namespace frugal::testing {

/// The root of the tree that the tests were built from. Only one small file depends on where that
/// is (tests/CMakeLists.txt writes it), so that a compiler cache serves several clones.
std::string source_dir();

}  // namespace frugal::testing
