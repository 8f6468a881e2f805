#pragma once
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/namespace.h"

namespace frugal::harness {

/// A number or a name that may be unknown, as JSON: null then.
template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace frugal::harness
