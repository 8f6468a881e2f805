#include "tests/support/test_seed.h"

#include <cstdlib>
#include <random>

namespace frugal::kernels::table {

uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("FRUGAL_TEST_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : uint64_t{std::random_device()()};
  }();
  return seed;
}

}  // namespace frugal::kernels::table
