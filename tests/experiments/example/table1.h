#pragma once
#include "experiments/namespace.h"
#include "harness/measure/artifact.h"

namespace frugal::experiments::example {

/// What the line of an artifact in experiments/artifacts.h declares.
const Artifact& table1();

}  // namespace frugal::experiments::example
