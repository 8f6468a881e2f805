#pragma once
#include "harness/measure/artifact.h"

namespace frugal::example {

/// What the line of an artifact in experiments/artifacts.h declares.
const Artifact& table1();

}  // namespace frugal::example
