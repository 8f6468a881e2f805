#pragma once
#include "experiments/namespace.h"
#include "harness/report/inventory.h"

namespace frugal::experiments {

/// What all papers have, in the order of the artifacts, and the policy by which they are judged.
Papers all_papers();

}  // namespace frugal::experiments
