#pragma once
#include <functional>
#include <memory>

#include "engine/cluster/cluster.h"

// Everything that the engine can do, in combinations drawn at random: each is refused in one line,
// or it is the serial run. scripts/combinations.sh runs as many as one wants.
namespace frugal::testing {

/// Place where combinations are trained.
struct CombinationsOn {
  /// Throws InputError for what it does not have.
  std::function<std::unique_ptr<engine::Cluster>(const engine::RunConfig&)> cluster;
  /// Has a configuration avoid what it does not have.
  std::function<void(engine::RunConfig&)> adapt = [](engine::RunConfig&) {};
};

/// Draws until `count` combinations have run, or as many as FRUGAL_COMBINATIONS says, from the seed
/// FRUGAL_SEED, or 1.
void expect_combinations_equal_serial(const CombinationsOn& on, int64_t count);

}  // namespace frugal::testing
