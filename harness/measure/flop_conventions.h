#pragma once
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// A way to count the FLOPs that a training step needs, forward and backward. What is computed
/// again counts in none of them.
struct FlopConvention {
  std::string name;    ///< "6 N + 12 L H Q T"
  std::string counts;  ///< which parameters, and which pairs of positions
  std::string source;  ///< who counts so
  double flops = 0;    ///< of a step, all devices together
};

/// Conventions by which people divide when they say MFU, of a step over so many sequences.
std::vector<FlopConvention> flop_conventions(const ModelConfig& model, double sequences);

}  // namespace frugal::harness
