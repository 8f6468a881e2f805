#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// Text in rows and columns, and the ways to write it.
struct Table {
  struct Column {
    std::string name;
    bool number = false;  ///< to the right
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  ///< as many texts as columns

  std::string text() const;  ///< aligned, for a terminal
  std::string markdown() const;
  std::string csv() const;  ///< for a spreadsheet
  /// By the name of --format: "table", "markdown" or "csv".
  std::string in(std::string_view format) const;
};

/// All digits of a whole number, four significant ones of any other.
std::string format_number(double value);
/// Empty where there is none.
std::string format_number(const std::optional<double>& value);

/// "[low, high]", in such units.
std::string format_interval(const Interval& interval, double unit = 1);
/// With its interval, where it has one: "0.2058 [0.201, 0.212]".
std::string format_estimate(const Estimate& estimate);

/// A quantity as people read it.
struct Quantity {
  std::string value, unit;

  std::string text() const { return value + " " + unit; }
};
/// In the largest of B, KiB, MiB, GiB and TiB of which there is one, five significant digits.
Quantity format_bytes(int64_t bytes);

std::string escape_csv(const std::string& text);

}  // namespace frugal::harness
