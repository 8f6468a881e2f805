#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "harness/namespace.h"

namespace frugal::testing {

constexpr int64_t mebi = 1 << 20, gibi = 1 << 30;

/// What stands at these places of a document, as text: JSON pointers without their first slash, and
/// spaces between.
inline std::string values_at(const nlohmann::json& document, const std::string& places) {
  std::istringstream words(places);
  std::string text;
  for (std::string place; words >> place;)
    text +=
        (text.empty() ? "" : " ") + document.at(nlohmann::json::json_pointer("/" + place)).dump();
  return text;
}

/// Text with a bar between the columns of its tables, and without the lines below their headers.
inline std::string barred(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.find_first_not_of("- ") == std::string::npos) continue;
    for (size_t at = 0; (at = line.find("  ", at)) != std::string::npos; at += 1)
      line.replace(at, line.find_first_not_of(' ', at) - at, "|");
    out += line + "\n";
  }
  return out;
}

}  // namespace frugal::testing
