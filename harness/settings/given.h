#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// What a file (--config) says: an object with the keys of fields, as the "configuration" of a
/// record is, whose "model" may be an object, too. A list of values says one after the other.
/// Throws InputError for what is no such file.
nlohmann::json given_in_file(const std::string& path);

/// What "key=value" (--set) says; commas separate several values. Throws InputError.
nlohmann::json given_in_text(const std::string& assignment);

/// One object for each combination of the values in lists, the first field's slowest. One where
/// nothing is a list. Throws InputError where there are too many to run.
std::vector<nlohmann::json> combinations(const nlohmann::json& given);
/// The keys whose values are lists, in the order of fields.
std::vector<std::string> swept_keys(const nlohmann::json& given);

}  // namespace frugal::harness
