#pragma once
#include <string>
#include <vector>

#include "engine/comm/activity.h"

/// What processes tell each other, as bytes.
namespace frugal::engine {

std::string serialized(const Activity::State& state);
/// Its texts are kept for as long as the program runs.
Activity::State parsed_state(const std::string& text);

/// Texts in one, and out of it.
std::string joined(const std::vector<std::string>& values);
std::vector<std::string> separated(const std::string& all);

}  // namespace frugal::engine
