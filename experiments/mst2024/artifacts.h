#pragma once
#include "harness/artifact.h"

namespace frugal::mst2024 {

/// Tables 2, 3, 4 and 12: the longest sequences.
std::vector<const Artifact*> longest_sequences();
/// The same of a later paper, on one H200 and on eight H100.
std::vector<const Artifact*> anchors();
/// Tables 8 to 11 and figure 11: what is in memory at the peak of a step; figure 3.
std::vector<const Artifact*> memory_in_peak();
/// Table 6: the time of a step.
const Artifact& table6();
/// Tables 13 to 16: time and memory of the output layer and of the MLP alone.
std::vector<const Artifact*> modules();

}  // namespace frugal::mst2024
