#pragma once
#include <string>

#include "engine/config.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// How many parameters a model has: "8.03 billion", and as a unit "8,030,261,248".
Quantity parameters_of(const ModelConfig& model);
/// What a table of a run begins with: "llama3-8b: 8.03 billion parameters (8,030,261,248)\n".
std::string parameters_line(const ModelConfig& model);

}  // namespace frugal::harness
