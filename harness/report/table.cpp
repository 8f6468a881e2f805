#include "harness/report/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/support/bytes.h"

namespace frugal::harness {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 take no place.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::vector<std::string> header(const Table& table) {
  std::vector<std::string> names;
  for (const auto& column : table.columns) names.push_back(column.name);
  return names;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(width_of(columns[i].name));
    for (const auto& row : rows) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += padded(cells[i], widths[i], columns[i].number);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  line(header(*this));
  std::vector<std::string> rule;
  for (const size_t width : widths) rule.emplace_back(width, '-');
  line(rule);
  for (const auto& row : rows) line(row);
  return out;
}

std::string Table::markdown() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += "|";
    for (const auto& cell : cells) out += fmt::format(" {} |", replaced(cell, "|", "\\|"));
    out += "\n";
  };
  line(header(*this));
  out += "|";
  for (const Column& column : columns) out += column.number ? "---:|" : "---|";
  out += "\n";
  for (const auto& row : rows) line(row);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> escaped;
    for (const auto& cell : cells) escaped.push_back(escape_csv(cell));
    out += fmt::format("{}\n", fmt::join(escaped, ","));
  };
  line(header(*this));
  for (const auto& row : rows) line(row);
  return out;
}

std::string Table::in(std::string_view format) const {
  return format == "csv" ? csv() : format == "markdown" ? markdown() : text();
}

std::string format_number(double value) {
  if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15)
    return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string format_number(const std::optional<double>& value) {
  return value ? format_number(*value) : "";
}

std::string format_interval(const Interval& interval, double unit) {
  return fmt::format("[{}, {}]", format_number(interval.low / unit),
                     format_number(interval.high / unit));
}

std::string format_estimate(const Estimate& estimate) {
  const std::string value = format_number(estimate.value);
  return estimate.interval ? value + " " + format_interval(*estimate.interval) : value;
}

Quantity format_bytes(int64_t bytes) {
  const std::string text = bytes_in_words(bytes);
  const size_t space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

std::string escape_csv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return fmt::format("\"{}\"", replaced(text, "\"", "\"\""));
}

}  // namespace frugal::harness
