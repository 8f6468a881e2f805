#pragma once
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

namespace frugal::kernels {

/// "28.371 GiB": in the largest of B, KiB, MiB, GiB and TiB of which there is one, five significant
/// digits.
inline std::string bytes_in_words(int64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.5g} {}", value, units.at(unit));
}

}  // namespace frugal::kernels
