#pragma once
#include <vector>

#include "harness/artifact.h"

namespace frugal::pipedream2bw2021 {

/// Figures 1a, 1b, 2, 3a and 3b.
std::vector<const Artifact*> timelines();
/// Figures 6a to 6c and 10a to 10c.
std::vector<const Artifact*> throughputs();
/// Figures 7 and 11.
std::vector<const Artifact*> footprints();
const Artifact& figure8();
const Artifact& figure9();
const Artifact& figure12();

}  // namespace frugal::pipedream2bw2021
