#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/validate/validation.h"

namespace frugal::harness {

/// The verdict in one line: "PASS: …", "FAIL: …" or "WRONG: …", with what could not be judged.
std::string verdict_line(const Validation& validation);

/// One page: the verdict, the groups, what failed and why, what was not judged, and what was
/// measured. `format` is "table" or "markdown".
std::string validation_page(const Validation& validation, const std::string& device,
                            const std::string& format);

/// docs/validate.md; everything, every burst of every probe too.
nlohmann::json to_json(const Validation& validation, const Target& target,
                       const std::string& command);

std::string validation_junit(const Validation& validation);

}  // namespace frugal::harness
