#pragma once
#include "harness/artifact.h"

namespace frugal::mst2024 {

/// Tables 2, 3, 4 and 12, and the anchors that are not the paper's: the longest sequences.
std::vector<const Artifact*> longest_sequences();

}  // namespace frugal::mst2024
