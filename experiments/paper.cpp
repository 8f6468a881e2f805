#include "experiments/paper.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/support/embedded.h"

namespace frugal::experiments {
namespace {

/// What a paper reports instead of a number where memory ran out.
constexpr const char* ran_out = "OOM";

std::string path_of(const std::string& id) { return "experiments/" + id + "/paper.json"; }

/// Half a unit of the last digit as it is written there, 0.05 for 41.0.
double printed_uncertainty(const nlohmann::json& value) {
  const std::string text = value.dump();
  const size_t point = text.find('.');
  const auto digits = point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
  return 0.5 * std::pow(10, -digits);
}

PaperCell read_cell(const std::string& artifact, const nlohmann::json& json) {
  PaperCell cell{.artifact = artifact,
                 .row = json.at("row"),
                 .column = json.at("column"),
                 .unit = json.at("unit"),
                 .read = json.at("read"),
                 .uncertainty = json.value("uncertainty", 0.0),
                 .oom = json.at("value") == ran_out};
  if (cell.oom) return cell;
  cell.value = json.at("value");
  const bool longest = cell.unit == "K tokens";
  if (!json.contains("uncertainty"))
    cell.uncertainty = (longest ? 2 : 1) * printed_uncertainty(json.at("value"));
  return cell;
}

Statement read_statement(const nlohmann::json& json) {
  Statement statement{.id = json.at("id"),
                      .where = json.value("where", ""),
                      .says = json.at("says"),
                      .contradicted = json.value("contradicted", "")};
  if (json.contains("value")) {
    statement.value = json.at("value").get<double>();
    statement.uncertainty = json.value("uncertainty", printed_uncertainty(json.at("value")));
  }
  statement.artifacts = json.value("artifacts", statement.artifacts);
  statement.why_not = json.value("why_not", "");
  if (json.contains("ratio")) {
    const nlohmann::json &ratio = json.at("ratio"), &of = ratio.at("of"), &over = ratio.at("over");
    statement.ratio = {ratio.at("artifact"), {of.at(0), of.at(1)}, {over.at(0), over.at(1)}};
    statement.artifacts = {statement.ratio->artifact};
  }
  return statement;
}

NoEffectRule read_rule(const nlohmann::json& json) {
  NoEffectRule rule{.row = json.value("row", ""), .column = json.value("column", "")};
  const nlohmann::json& is = json.at("is");
  if (is.is_number()) {
    rule.value = is.get<double>();
  } else {
    rule.artifact = is.value("artifact", "");
    rule.other_row = is.value("row", "");
    rule.other_column = is.value("column", "");
  }
  return rule;
}

}  // namespace

Paper::Paper(const std::string& id) : Paper(id, embedded_file(path_of(id)).value()) {}

Paper::Paper(std::string id, std::string_view text)
    : id_(std::move(id)),
      document_(std::make_shared<nlohmann::json>(parse_json(text, path_of(id_)))) {
  for (const auto& [artifact, content] : document_->at("artifacts").items())
    for (const auto& json : content.value("cells", nlohmann::json::array()))
      cells_.push_back(read_cell(artifact, json));
  for (const auto& json : document_->at("statements")) statements_.push_back(read_statement(json));
  for (const auto& json : document_->at("contradictions")) contradictions_.push_back(json);
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

JsonObject Paper::root() const { return {*document_, path_of(id_)}; }
JsonObject Paper::setup() const { return root().object("setup"); }
std::vector<JsonObject> Paper::models() const { return root().objects("models"); }
JsonObject Paper::artifact(const std::string& name) const {
  return root().object("artifacts").object(name);
}

std::string Paper::caption(const std::string& name) const {
  return artifact(name).require<std::string>("caption");
}

std::vector<NoEffectRule> Paper::no_effect(const std::string& name) const {
  const nlohmann::json& artifact = document_->at("artifacts").at(name);
  std::vector<NoEffectRule> rules;
  if (!artifact.contains("no_effect")) return rules;
  const nlohmann::json& own = artifact.at("no_effect");
  // What several artifacts share has a name.
  for (const nlohmann::json& rule : own.is_string() ? document_->at("no_effect").at(own) : own)
    rules.push_back(read_rule(rule));
  return rules;
}

std::string Paper::numbers(const std::string& name) const {
  return document_->at("artifacts").at(name).value("numbers", "");
}

Inventory Paper::inventory() const {
  Inventory all{id_, root().object("paper").require<std::string>("title"), {}};
  const auto add = [&](InventoryEntry entry) {
    for (std::string& name : entry.artifacts) name.insert(0, id_ + "/");
    all.entries.push_back(std::move(entry));
  };
  for (const nlohmann::json& row : document_->at("inventory")) {
    InventoryEntry entry{row.at("where"), row.value("what", ""), {}, row.value("why_not", "")};
    entry.artifacts = row.value("artifacts", entry.artifacts);
    // What an artifact shows stands with its numbers.
    const std::string shown =
        entry.artifacts.size() == 1 ? entry.artifacts[0] : row.value("of", "");
    if (entry.what.empty()) entry.what = caption(shown);
    add(std::move(entry));
  }
  for (const Statement& said : statements_)
    add({said.where.empty() ? "text" : said.where, said.says, said.artifacts, said.why_not});
  return all;
}

std::vector<std::vector<DrawnPass>> Paper::workers(const std::string& name) const {
  std::vector<std::vector<DrawnPass>> workers;
  for (const nlohmann::json& passes : artifact(name).at("workers")) {
    std::vector<DrawnPass>& drawn = workers.emplace_back();
    for (const nlohmann::json& pass : passes)
      drawn.push_back({pass.at(0) == "F", pass.at(1), pass.at(2), pass.at(3)});
  }
  return workers;
}

const Statement& Paper::statement(std::string_view id) const {
  for (const Statement& s : statements_)
    if (s.id == id) return s;
  unknown("statement", id);
}

void Paper::unknown(const std::string& what, std::string_view name) const {
  throw std::out_of_range("paper.json of " + id_ + " has no " + what + " " + std::string(name));
}

}  // namespace frugal::experiments
