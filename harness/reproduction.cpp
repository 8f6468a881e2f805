#include "harness/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace frugal {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const Cell& cell) {
  return {
      {"artifact", cell.artifact},
      {"row", cell.row},
      {"column", cell.column},
      {"unit", cell.unit},
      {"paper", or_null(cell.paper)},
      {"read", cell.read},
      {"value", or_null(cell.value)},
      {"interval", cell.interval ? json{cell.interval->low, cell.interval->high} : json(nullptr)},
      {"source", name_of(cell.source)},
      {"on", cell.on},
      {"scale", scale_name(cell.scale)},
      {"error_percent", or_null(cell.error_percent())},
      {"status", name_of(cell.status)},
      {"reason", cell.reason}};
}

json to_json(const Claim& claim) {
  static constexpr std::array relations = {"about", "at least", "at most"};
  return {{"id", claim.id},
          {"statement", claim.statement},
          {"paper", or_null(claim.paper)},
          {"unit", claim.unit},
          {"value", or_null(claim.value)},
          {"relation", relations[static_cast<size_t>(claim.relation)]},
          {"tolerance", claim.tolerance},
          {"justification", claim.justification},
          {"source", name_of(claim.source)},
          {"on", claim.on},
          {"scale", scale_name(claim.scale)},
          {"verdict", name_of(claim.verdict())},
          {"reason", claim.reason}};
}

/// "virtual:a100-selene", "measured cpu 1/8", "formula": the name of a column.
std::string origin(Source source, const std::string& on, int64_t scale) {
  std::string name = source == Source::simulated ? on : std::string(name_of(source));
  if (source == Source::measured) name += " " + on;
  return scale == 1 ? name : name + " at " + scale_name(scale);
}

std::string origin(const Cell& cell) { return origin(cell.source, cell.on, cell.scale); }

std::string value_text(const Cell& cell) {
  if (!cell.value) return std::string(name_of(cell.status));
  if (!cell.interval) return format_number(*cell.value);
  return fmt::format("{} [{}, {}]", format_number(*cell.value), format_number(cell.interval->low),
                     format_number(cell.interval->high));
}

std::string paper_text(const Cell& cell) {
  if (!cell.paper) return "";
  return format_number(*cell.paper) + (cell.read == "printed" ? "" : " (" + cell.read + ")");
}

std::string relation_text(const Claim& claim) {
  static constexpr std::array signs = {"", "≥ ", "≤ "};
  return signs[static_cast<size_t>(claim.relation)] + format_number(claim.paper) + " " + claim.unit;
}

template <class T>
size_t position(std::vector<T>& all, const T& one) {
  const auto found = std::find(all.begin(), all.end(), one);
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back(one);
  return all.size() - 1;
}

std::string document(const Reproduction& reproduction, const char* heading,
                     std::string (Table::*format)() const) {
  std::string out;
  std::vector<std::string> artifacts;
  for (const Cell& cell : reproduction.cells) position(artifacts, cell.artifact);
  for (const std::string& artifact : artifacts) {
    const auto title = reproduction.titles.find(artifact);
    out += fmt::format("{}{}: {}\n\n", heading, artifact,
                       title == reproduction.titles.end() ? "" : title->second);
    out += (cell_table(reproduction, artifact).*format)() + "\n";
    for (const std::string& remark : remarks(reproduction, artifact)) out += "- " + remark + "\n";
    if (out.back() != '\n' || out[out.size() - 2] != '\n') out += "\n";
  }
  if (reproduction.claims.empty()) return out;
  Table claims = claim_table(reproduction);
  if (format == &Table::text) {  // a terminal is too narrow for sentences
    claims.columns.resize(6);
    for (auto& row : claims.rows) row.resize(6);
  }
  return out + fmt::format("{}Claims\n\n", heading) + (claims.*format)();
}

}  // namespace

void Reproduction::add(const Artifact& artifact, const Records& records) {
  titles[artifact.id()] = artifact.title();
  for (Cell& cell : artifact.cells(records)) cells.push_back(std::move(cell));
  for (Claim& claim : artifact.claims(records)) claims.push_back(std::move(claim));
}

bool Reproduction::any_claim_failed() const {
  return std::any_of(claims.begin(), claims.end(),
                     [](const Claim& c) { return c.verdict() == Verdict::not_reproduced; });
}

json to_json(const Reproduction& reproduction) {
  json cells = json::array(), claims = json::array();
  for (const Cell& cell : reproduction.cells) cells.push_back(to_json(cell));
  for (const Claim& claim : reproduction.claims) claims.push_back(to_json(claim));
  return {{"schema", Reproduction::schema}, {"cells", cells}, {"claims", claims}};
}

std::string to_csv(const Reproduction& reproduction) {
  static constexpr std::array keys = {"artifact", "row",   "column",        "unit",   "paper",
                                      "read",     "value", "low",           "high",   "source",
                                      "on",       "scale", "error_percent", "status", "reason"};
  std::string out = fmt::format("{}\n", fmt::join(keys, ","));
  for (const Cell& cell : reproduction.cells) {
    json object = to_json(cell);
    object["low"] = cell.interval ? json(cell.interval->low) : json(nullptr);
    object["high"] = cell.interval ? json(cell.interval->high) : json(nullptr);
    std::vector<std::string> texts;
    for (const char* key : keys) {
      const json& value = object[key];
      texts.push_back(value.is_null()     ? ""
                      : value.is_string() ? escape_csv(value.get<std::string>())
                                          : value.dump());
    }
    out += fmt::format("{}\n", fmt::join(texts, ","));
  }
  return out;
}

Table cell_table(const Reproduction& reproduction, const std::string& artifact) {
  Table table{{{"row"}, {"column"}, {"unit"}, {"paper", true}}, {}};
  std::vector<std::string> origins;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Cell& cell : reproduction.cells)
    if (cell.artifact == artifact) position(origins, origin(cell));
  for (const std::string& name : origins) {
    table.columns.push_back({name, true});
    table.columns.push_back({"error %", true});
  }
  for (const Cell& cell : reproduction.cells) {
    if (cell.artifact != artifact) continue;
    const size_t line = position(lines, {cell.row, cell.column});
    if (line == table.rows.size()) {
      table.rows.push_back({cell.row, cell.column, cell.unit, paper_text(cell)});
      table.rows.back().resize(table.columns.size());
    }
    const size_t column = 4 + 2 * position(origins, origin(cell));
    table.rows[line][column] = value_text(cell);
    if (const auto error = cell.error_percent())
      table.rows[line][column + 1] = fmt::format("{:+.2f}", *error);
  }
  return table;
}

Table claim_table(const Reproduction& reproduction) {
  Table table{{{"claim"},
               {"paper", true},
               {"tolerance", true},
               {"source"},
               {"value", true},
               {"verdict"},
               {"statement"},
               {"why"}},
              {}};
  for (const Claim& claim : reproduction.claims)
    table.rows.push_back({claim.id, relation_text(claim), "± " + format_number(claim.tolerance),
                          origin(claim.source, claim.on, claim.scale), format_number(claim.value),
                          std::string(name_of(claim.verdict())), claim.statement,
                          claim.reason.empty() ? claim.justification : claim.reason});
  return table;
}

std::vector<std::string> remarks(const Reproduction& reproduction, const std::string& artifact) {
  std::vector<std::string> all;
  for (const Cell& cell : reproduction.cells)
    if (cell.artifact == artifact && !cell.reason.empty())
      position(all, origin(cell) + ": " + cell.reason);
  return all;
}

std::string to_text(const Reproduction& r) { return document(r, "", &Table::text); }
std::string to_markdown(const Reproduction& r) { return document(r, "## ", &Table::markdown); }

}  // namespace frugal
