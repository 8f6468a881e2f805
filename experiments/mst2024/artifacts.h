#pragma once
#include "harness/artifact.h"

namespace frugal::mst2024 {

/// Tables 2, 3, 4 and 12: the longest sequences.
std::vector<const Artifact*> longest_sequences();
/// The same of a later paper, on one H200 and on eight H100.
std::vector<const Artifact*> anchors();

}  // namespace frugal::mst2024
