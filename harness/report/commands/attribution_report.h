#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/explain/attribution.h"

namespace frugal::harness {

/// A table for each cell: frugal's value, what each behaviour adds, the program's value, what no
/// behaviour explains, and the paper's.
std::string to_text(const std::vector<Attribution>& attributions);
nlohmann::json to_json(const std::vector<Attribution>& attributions, const std::string& command);

}  // namespace frugal::harness
