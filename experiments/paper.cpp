#include "experiments/paper.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "kernels/support/embedded.h"
#include "kernels/support/json_file.h"

namespace frugal {
namespace {

/// What a paper reports instead of a number where memory ran out.
constexpr const char* ran_out = "OOM";

nlohmann::json load(const std::string& id) {
  const std::string path = "experiments/" + id + "/paper.json";
  return parse_json(embedded_file(path).value(), path);
}

PaperCell read_cell(const std::string& artifact, const nlohmann::json& json) {
  PaperCell cell{.artifact = artifact,
                 .row = json.at("row"),
                 .column = json.at("column"),
                 .unit = json.at("unit"),
                 .read = json.at("read"),
                 .uncertainty = json.value("uncertainty", 0.0),
                 .oom = json.at("value") == ran_out};
  if (!cell.oom) cell.value = json.at("value");
  return cell;
}

Statement read_statement(const nlohmann::json& json) {
  Statement statement{json.at("id"), json.value("where", ""), json.at("says"), std::nullopt};
  if (json.contains("value")) statement.value = json.at("value").get<double>();
  return statement;
}

}  // namespace

Paper::Paper(const std::string& id) : id_(id), document_(load(id)) {
  for (const auto& [artifact, content] : document_.at("artifacts").items())
    for (const auto& json : content.value("cells", nlohmann::json::array()))
      cells_.push_back(read_cell(artifact, json));
  for (const auto& json : document_.at("statements")) statements_.push_back(read_statement(json));
  for (const auto& json : document_.at("contradictions")) contradictions_.push_back(json);
}

const PaperCell* Paper::find_cell(std::string_view artifact, std::string_view row,
                                  std::string_view column) const {
  const auto found = std::find_if(cells_.begin(), cells_.end(), [&](const PaperCell& c) {
    return c.artifact == artifact && c.row == row && c.column == column;
  });
  return found == cells_.end() ? nullptr : &*found;
}

const PaperCell& Paper::cell(std::string_view artifact, std::string_view row,
                             std::string_view column) const {
  if (const PaperCell* found = find_cell(artifact, row, column)) return *found;
  unknown("cell", std::string(artifact) + " / " + std::string(row) + " / " + std::string(column));
}

std::vector<PaperCell> Paper::cells_of(const std::string& artifact) const {
  std::vector<PaperCell> cells;
  std::copy_if(cells_.begin(), cells_.end(), std::back_inserter(cells),
               [&](const PaperCell& cell) { return cell.artifact == artifact; });
  return cells;
}

std::string Paper::caption(const std::string& artifact) const {
  return document_.at("artifacts").at(artifact).at("caption");
}

const Statement& Paper::statement(std::string_view id) const {
  for (const Statement& s : statements_)
    if (s.id == id) return s;
  unknown("statement", id);
}

void Paper::unknown(const std::string& what, std::string_view name) const {
  throw std::out_of_range("paper.json of " + id_ + " has no " + what + " " + std::string(name));
}

}  // namespace frugal
