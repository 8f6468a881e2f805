#include "harness/report/reproduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/record/or_null.h"
#include "harness/report/verdicts.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

std::string at(int64_t scale) { return scale == 1 ? "" : " at " + scale_name(scale); }

json interval_json(const std::optional<Interval>& interval) {
  return interval ? json{interval->low, interval->high} : json(nullptr);
}

/// What cells and claims share.
json comparison_json(const Comparison& number) {
  static constexpr std::array relations = {"about", "at least", "at most", "direction"};
  return {{"unit", number.unit},
          {"paper", or_null(number.paper)},
          {"formula", or_null(number.formula)},
          {"value", or_null(number.value)},
          {"interval", interval_json(number.interval)},
          {"samples", number.samples == 0 ? json(nullptr) : json(number.samples)},
          {"source", name_of(number.source)},
          {"on", number.on},
          {"program", number.program},
          {"threads", number.threads > 0 ? json(number.threads) : json(nullptr)},
          {"scale", scale_name(number.scale)},
          {"fitted", number.fitted},
          {"reason", number.reason},
          {"relation", relations[static_cast<size_t>(number.relation)]},
          {"tolerance", or_null(number.tolerance)},
          {"justification", number.justification},
          {"no_effect", or_null(number.no_effect)}};
}

/// With its interval, or why there is none.
std::string value_text(const Comparison& number) {
  if (!number.value) return "";
  std::string text = format_number(*number.value);
  if (number.interval)
    text += " " + format_interval(*number.interval);
  else if (number.samples > 0)
    text += fmt::format(" (median of {})", number.samples);
  return number.fitted ? text + " (fitted)" : text;
}

std::string error_text(const Cell& cell) {
  if (const auto points = cell.error_points()) return fmt::format("{:+.2f} pt", *points);
  if (const auto percent = cell.error_percent()) return fmt::format("{:+.2f} %", *percent);
  return "";
}

/// Empty where there is none. What a direction is judged by is not how large it is.
std::string verdict_text(const Cell& cell) {
  const auto verdict = cell.verdict();
  if (!verdict) return "";
  const bool direction = cell.relation == Comparison::Relation::direction;
  return (direction ? "direction " : "") + std::string(name_of(*verdict));
}

std::string paper_text(const Cell& cell) {
  if (!cell.paper) return cell.paper_oom ? "oom" : "";
  return format_number(*cell.paper) + (cell.read == "printed" ? "" : " (" + cell.read + ")");
}

/// "≥ 90 %", "formula at 1/8: 4096 bytes", "> 0 % (39 % at full size)".
std::string reference_text(const Claim& claim) {
  if (claim.relation == Comparison::Relation::direction)
    return fmt::format("{} {} {unit} ({} {unit} at full size)",
                       *claim.reference() > *claim.no_effect ? ">" : "<",
                       format_number(claim.no_effect), format_number(claim.reference()),
                       fmt::arg("unit", claim.unit));
  static constexpr std::array signs = {"", "≥ ", "≤ "};
  return (claim.paper ? "" : "formula" + at(claim.scale) + ": ") +
         signs[static_cast<size_t>(claim.relation)] + format_number(claim.reference()) + " " +
         claim.unit;
}

std::string tolerance_text(const Comparison& number) {
  if (number.relation == Comparison::Relation::direction) return "direction";
  return "± " + format_number(number.tolerance);
}

/// With its note, whatever the verdict follows from.
std::string why(const Claim& claim) {
  std::string text = claim.reason.empty() ? claim.justification : claim.reason;
  if (const std::string note = claim.note(); !note.empty())
    text += (text.empty() ? "" : "; ") + note;
  return text;
}

template <class T>
size_t position(std::vector<T>& all, const T& one) {
  const auto found = std::find(all.begin(), all.end(), one);
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back(one);
  return all.size() - 1;
}

std::vector<const Cell*> select(const Reproduction& reproduction, const std::string& artifact,
                                int64_t scale) {
  std::vector<const Cell*> selected;
  for (const Cell& cell : reproduction.cells)
    if (cell.artifact == artifact && cell.scale == scale) selected.push_back(&cell);
  return selected;
}

/// Of cells of one artifact at one scale. Columns: row, column, unit; references; values, errors
/// and verdicts. `places` is told where each stands.
Table table_of(const std::vector<const Cell*>& cells, std::vector<CellPlace>& places) {
  const std::string scale = at(cells.front()->scale);
  Table table{{{"row"}, {"column"}, {"unit"}}, {}};
  const auto add_reference = [&](const std::string& name, const auto& has) {
    const size_t column = table.columns.size();
    if (std::any_of(cells.begin(), cells.end(), has)) table.columns.push_back({name, true});
    return column;
  };
  const size_t paper = add_reference(scale.empty() ? "paper" : "paper, full size",
                                     [](auto* cell) { return cell->paper || cell->paper_oom; });
  const size_t formula =
      add_reference("formula" + scale, [](auto* cell) { return cell->formula.has_value(); });
  std::map<std::string, size_t> columns;
  for (const Cell* cell : cells)
    if (columns.try_emplace(origin(*cell), table.columns.size()).second)
      table.columns.insert(table.columns.end(),
                           {{origin(*cell), true}, {"error", true}, {"verdict"}});
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Cell* cell : cells) {
    const size_t line = position(lines, {cell->row, cell->column});
    if (line == table.rows.size()) {
      table.rows.push_back({cell->row, cell->column, cell->unit});
      table.rows.back().resize(table.columns.size());
    }
    auto& row = table.rows[line];
    if (cell->paper || cell->paper_oom) row[paper] = paper_text(*cell);
    if (cell->formula) row[formula] = format_number(cell->formula);
    const size_t column = columns[origin(*cell)];
    places.push_back({line, column, cell});
    row[column] = cell->value ? value_text(*cell) : std::string(name_of(cell->status));
    row[column + 1] = error_text(*cell);
    row[column + 2] = verdict_text(*cell);
  }
  return table;
}

std::vector<std::string> remarks_on(const std::vector<const Cell*>& cells) {
  std::vector<std::string> all;
  for (const Cell* cell : cells) {
    const bool undecided = cell->verdict() == Verdict::undecided && !cell->reason.empty();
    const bool direction = cell->relation == Comparison::Relation::direction;
    const std::string judged = direction ? cell->justification : "";
    const std::string whose = undecided ? cell->row + ", " + cell->column + ": " : "";
    for (const std::string& text : {cell->note, judged, whose + cell->reason})
      if (!text.empty()) position(all, origin(*cell) + ": " + text);
  }
  return all;
}

/// Lines that say what would decide each undecided claim.
std::string left_undecided(const std::vector<Claim>& claims) {
  std::string lines;
  for (const Claim& claim : claims)
    if (claim.verdict() == Verdict::undecided)
      lines += fmt::format("- {}, {}: {}\n", claim.id, origin(claim), why(claim));
  return lines.empty() ? "" : "\n" + lines;
}

enum class Style : uint8_t { text, markdown };

std::string written(const Table& table, Style style) {
  return style == Style::text ? table.text() : table.markdown();
}

std::string document(const Reproduction& reproduction, Style style) {
  const char* heading = style == Style::text ? "" : "## ";
  std::string out;
  for (const CellTable& part : cell_tables(reproduction)) {
    out += fmt::format("{}{}\n\n{}\n", heading, part.heading, written(part.table, style));
    for (const std::string& remark : part.remarks) out += "- " + remark + "\n";
    if (!part.remarks.empty()) out += "\n";
  }
  out += fmt::format("{}Verdicts\n\n{}\n", heading, written(verdict_table(reproduction), style));
  if (reproduction.claims.empty()) return out;
  Table claims = claim_table(reproduction);
  out += fmt::format("{}Claims\n\n", heading);
  if (style == Style::markdown) return out + written(claims, style);
  claims.columns.resize(6);  // a terminal is too narrow for sentences
  for (auto& row : claims.rows) row.resize(6);
  return out + written(claims, style) + left_undecided(reproduction.claims);
}

}  // namespace

std::string origin(const Comparison& number) {
  std::string name =
      number.source == Source::simulated ? number.on : std::string(name_of(number.source));
  if (number.source == Source::measured) name += " " + number.on;
  if (number.threads > 0) name += fmt::format(", {} threads", number.threads);
  return name + at(number.scale);
}

json to_json(const Cell& cell) {
  const std::optional<Verdict> verdict = cell.verdict();
  json object = comparison_json(cell);
  object.update({{"artifact", cell.artifact},
                 {"row", cell.row},
                 {"column", cell.column},
                 {"read", cell.read},
                 {"paper_oom", cell.paper_oom},
                 {"error_percent", or_null(cell.error_percent())},
                 {"error_points", or_null(cell.error_points())},
                 {"status", name_of(cell.status)},
                 {"verdict", verdict ? json(name_of(*verdict)) : json(nullptr)},
                 {"of_another_run", cell.of_another_run},
                 {"note", cell.note}});
  return object;
}

json to_json(const Claim& claim) {
  json object = comparison_json(claim);
  object.update({{"id", claim.id},
                 {"statement", claim.statement},
                 {"verdict", name_of(claim.verdict())},
                 {"note", claim.note()},
                 {"expected", claim.expected}});
  return object;
}

void Reproduction::add(const Artifact& artifact, const Records& records) {
  titles[artifact.id()] = artifact.title();
  for (Cell& cell : artifact.cells(records)) cells.push_back(std::move(cell));
  for (Claim& claim : artifact.claims(records)) claims.push_back(std::move(claim));
}

json to_json(const Reproduction& reproduction) {
  json cells = json::array(), claims = json::array();
  for (const Cell& cell : reproduction.cells) cells.push_back(to_json(cell));
  for (const Claim& claim : reproduction.claims) claims.push_back(to_json(claim));
  return {{"schema", Reproduction::schema}, {"cells", cells}, {"claims", claims}};
}

std::string to_csv(const Reproduction& reproduction) {
  static constexpr std::array keys = {
      "artifact",  "row",       "column",        "unit",         "paper",   "paper_oom", "read",
      "formula",   "value",     "low",           "high",         "samples", "source",    "on",
      "threads",   "scale",     "error_percent", "error_points", "fitted",  "status",    "verdict",
      "tolerance", "no_effect", "justification", "reason",       "note"};
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

std::vector<CellTable> cell_tables(const Reproduction& reproduction) {
  std::vector<std::pair<std::string, int64_t>> parts;
  for (const Cell& cell : reproduction.cells) position(parts, {cell.artifact, cell.scale});
  // All scales of an artifact together, in the order in which artifacts and scales first occur.
  std::vector<std::string> artifacts;
  for (const auto& part : parts) position(artifacts, part.first);
  std::vector<CellTable> tables;
  for (const std::string& artifact : artifacts)
    for (const auto& [of, scale] : parts) {
      if (of != artifact) continue;
      const auto cells = select(reproduction, artifact, scale);
      const auto title = reproduction.titles.find(artifact);
      CellTable& part = tables.emplace_back();
      part.heading =
          artifact + at(scale) + (title == reproduction.titles.end() ? "" : ": " + title->second);
      part.table = table_of(cells, part.places);
      part.remarks = remarks_on(cells);
    }
  return tables;
}

Table claim_table(const Reproduction& reproduction) {
  Table table{{{"claim"},
               {"stated", true},
               {"tolerance", true},
               {"source"},
               {"value", true},
               {"verdict"},
               {"statement"},
               {"why"}},
              {}};
  for (const Claim& claim : reproduction.claims) {
    const Verdict verdict = claim.verdict();
    const bool expected = claim.expected && verdict == Verdict::not_reproduced;
    table.rows.push_back({claim.id, reference_text(claim), tolerance_text(claim), origin(claim),
                          value_text(claim),
                          std::string(name_of(verdict)) + (expected ? ", as expected" : ""),
                          claim.statement, why(claim)});
  }
  return table;
}

std::string to_text(const Reproduction& r) { return document(r, Style::text); }
std::string to_markdown(const Reproduction& r) { return document(r, Style::markdown); }

}  // namespace frugal::harness
