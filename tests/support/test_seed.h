#pragma once
#include <cstdint>

namespace frugal::kernels::table {

/// FRUGAL_TEST_SEED, or a fresh one for each run of the program.
uint64_t test_seed();

}  // namespace frugal::kernels::table
