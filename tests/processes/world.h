#pragma once
#include "engine/comm/processes/mpi.h"

/// Tests run in every process of a world that mpirun has started: all processes run
/// the same tests, in the same order, and the first says how they ended.
namespace frugal::testing {
using namespace engine;

World& world();
const MakeProcessGroup& groups();

}  // namespace frugal::testing
