#include <gtest/gtest.h>

#include "engine/cluster/cluster.h"
#include "tests/combinations/serial.h"

namespace frugal::engine {
namespace {

/// With one thread for each rank, so that the thread sanitizer sees ranks alone.
TEST(Combinations, AreRefusedOrEqualTheSerialRun) {
  testing::expect_combinations_equal_serial(
      {.cluster = [](const RunConfig& run) { return make_cpu_cluster(run, 1); }}, 30);
}

}  // namespace
}  // namespace frugal::engine
