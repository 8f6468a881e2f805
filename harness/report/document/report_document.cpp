#include "harness/report/document/report_document.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/record/or_null.h"
#include "harness/report/document/evidence_json.h"
#include "harness/report/document/timeline_json.h"
#include "harness/report/published_errors.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

std::string paper_of(const std::string& artifact) { return artifact.substr(0, artifact.find('/')); }

/// What would be said again and again stands once.
constexpr std::array shared = {"artifact",      "on",     "origin",  "program", "note",    "reason",
                               "justification", "device", "command", "build",   "machine", "file",
                               "unit",          "read"};

/// Leaves out what is null, empty, false, or what the page takes for granted; `texts` has what is
/// said more than once.
class Compact {
 public:
  json operator()(json object) {
    static const json granted = {{"scale", "1"}, {"status", "ok"}, {"relation", "about"}};
    for (auto member = object.begin(); member != object.end();) {
      const json& value = member.value();
      const bool nothing = value.is_null() || value == false || value == "" ||
                           (value.is_array() && value.empty()) ||
                           (value.is_number_float() && !std::isfinite(value.get<double>())) ||
                           (granted.contains(member.key()) && granted[member.key()] == value);
      member = nothing ? object.erase(member) : std::next(member);
    }
    for (const char* key : shared)
      if (object.contains(key)) object[key] = number_of(object[key]);
    return object;
  }
  const json& texts() const { return texts_; }

 private:
  size_t number_of(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, numbers_.size());
    if (is_new) texts_.push_back(text);
    return found->second;
  }

  std::map<std::string, size_t> numbers_;
  json texts_ = json::array();
};

json paper_json(const Inventory& inventory, const std::vector<ReportedArtifact>& artifacts) {
  Reproduction numbers;
  for (const ReportedArtifact& one : artifacts) {
    if (paper_of(one.artifact->id()) != inventory.paper) continue;
    const std::vector<Cell>& own = one.numbers.cells;
    numbers.cells.insert(numbers.cells.end(), own.begin(), own.end());
  }
  json entries = json::array();
  const Table table = inventory_table(inventory, numbers);
  for (size_t i = 0; i < inventory.entries.size(); ++i) {
    const InventoryEntry& entry = inventory.entries[i];
    entries.push_back({{"where", entry.where},
                       {"what", entry.what},
                       {"artifacts", entry.artifacts},
                       {"says", table.rows[i].back()}});
  }
  return {{"id", inventory.paper}, {"title", inventory.title}, {"inventory", entries}};
}

json table_json(const Table& table) {
  json columns = json::array();
  for (const Table::Column& column : table.columns)
    columns.push_back({{"name", column.name}, {"number", column.number}});
  return {{"columns", columns}, {"rows", table.rows}};
}

/// An artifact's tables. `cells` are those of the document, to which this adds its own.
json artifact_json(const ReportedArtifact& one, const Evidence& evidence, Compact& compact,
                   json& cells) {
  std::map<const Cell*, size_t> numbers;
  for (const Cell& cell : one.numbers.cells) {
    numbers[&cell] = cells.size();
    json object = to_json(cell);
    object["origin"] = origin(cell);
    object["records"] = evidence.of(cell.artifact, cell);
    cells.push_back(compact(std::move(object)));
  }
  json tables = json::array();
  for (const CellTable& part : cell_tables(one.numbers)) {
    json table = table_json(part.table);
    table["remarks"] = part.remarks;
    table["places"] = json::array();
    for (const CellPlace& place : part.places)
      table["places"].push_back({place.row, place.column, numbers[place.cell]});
    if (part.places.front().cell->scale != 1)
      table["scale"] = scale_name(part.places.front().cell->scale);
    tables.push_back(std::move(table));
  }
  return {{"id", one.artifact->id()},
          {"paper", paper_of(one.artifact->id())},
          {"title", one.artifact->title()},
          {"tables", std::move(tables)}};
}

void add_claims(const ReportedArtifact& one, const Evidence& evidence, Compact& compact,
                json& claims) {
  const Table table = claim_table(one.numbers);
  for (size_t i = 0; i < one.numbers.claims.size(); ++i) {
    const Claim& claim = one.numbers.claims[i];
    json object = to_json(claim);
    object["artifact"] = one.artifact->id();
    object["origin"] = origin(claim);
    object["records"] = evidence.of(one.artifact->id(), claim);
    object["stated"] = table.rows[i][1];
    object["ours"] = table.rows[i][4];
    claims.push_back(compact(std::move(object)));
  }
}

}  // namespace

std::vector<ReportedArtifact> reported_artifacts(const std::vector<const Artifact*>& artifacts,
                                                 const Records& records) {
  std::set<std::string> recorded, papers;
  for (const Record& record : records.all()) {
    recorded.insert(record.artifact);
    papers.insert(paper_of(record.artifact));
  }
  std::vector<ReportedArtifact> reported;
  for (const Artifact* artifact : artifacts) {
    const bool needs_none =
        papers.contains(paper_of(artifact->id())) && artifact->cases({}).empty();
    if (!recorded.contains(artifact->id()) && !needs_none) continue;
    ReportedArtifact one{artifact, {}};
    one.numbers.add(*artifact, records);
    if (!one.numbers.cells.empty() || !one.numbers.claims.empty())
      reported.push_back(std::move(one));
  }
  return reported;
}

Reproduction all_numbers(const std::vector<ReportedArtifact>& artifacts) {
  Reproduction all;
  for (const ReportedArtifact& one : artifacts) {
    all.titles.insert(one.numbers.titles.begin(), one.numbers.titles.end());
    all.cells.insert(all.cells.end(), one.numbers.cells.begin(), one.numbers.cells.end());
    all.claims.insert(all.claims.end(), one.numbers.claims.begin(), one.numbers.claims.end());
  }
  return all;
}

json report_document(const ReportedRecords& records, const std::vector<ReportedArtifact>& artifacts,
                     const Inventories& inventories, std::vector<json> timelines) {
  Compact compact;
  const Evidence evidence(records.records);
  json papers = json::array(), all = json::array(), cells = json::array(), claims = json::array();
  for (const Inventory& inventory : inventories)
    if (std::ranges::any_of(artifacts, [&](const ReportedArtifact& one) {
          return paper_of(one.artifact->id()) == inventory.paper;
        }))
      papers.push_back(paper_json(inventory, artifacts));
  for (const ReportedArtifact& one : artifacts) {
    all.push_back(artifact_json(one, evidence, compact, cells));
    add_claims(one, evidence, compact, claims);
    for (const DrawnTimeline& drawn : one.artifact->timelines()) {
      timelines.push_back(timeline_json(drawn));
      timelines.back()["artifact"] = one.artifact->id();
    }
  }
  json environments = json::array(), lines = json::array();
  for (size_t i = 0; i < records.records.all().size(); ++i) {
    json object = record_evidence(records.records.all()[i], environments);
    object["file"] = records.files[i];
    object["line"] = records.lines[i];
    lines.push_back(compact(std::move(object)));
  }
  return {{"schema", "frugal.report/1"},
          {"papers", std::move(papers)},
          {"artifacts", std::move(all)},
          {"cells", std::move(cells)},
          {"claims", std::move(claims)},
          {"records", std::move(lines)},
          {"environments", std::move(environments)},
          {"timelines", std::move(timelines)},
          {"published", table_json(published_errors(records.records))},
          {"shared", shared},
          {"texts", compact.texts()}};
}

}  // namespace frugal::harness
