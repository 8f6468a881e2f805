#pragma once
#include <nlohmann/json.hpp>
#include <optional>

namespace frugal {

/// A number or a name that may be unknown, as JSON: null then.
template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace frugal
