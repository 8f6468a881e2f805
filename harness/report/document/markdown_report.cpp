#include "harness/report/document/markdown_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/measurement.h"
#include "harness/report/published_errors.h"
#include "harness/report/verdicts.h"

namespace frugal::harness {
namespace {

struct Markdown {
  std::string text;

  void heading(const std::string& words) { text += "## " + words + "\n\n"; }
  void paragraph(const std::string& words) { text += words + "\n\n"; }
  void table(const Table& table) { text += table.markdown() + "\n"; }
  void list(const std::vector<std::string>& items) {
    if (items.empty()) return;
    for (const auto& item : items) text += "- " + item + "\n";
    text += "\n";
  }
};

/// Of the papers of which something was run.
void add_inventories(Markdown& page, const Reproduction& all, const Inventories& inventories) {
  for (const Inventory& inventory : inventories) {
    const bool any = std::any_of(all.cells.begin(), all.cells.end(), [&](const Cell& cell) {
      return cell.artifact.starts_with(inventory.paper + "/");
    });
    if (!any) continue;
    page.heading("What of " + inventory.paper + " there is");
    page.table(inventory_table(inventory, all));
  }
}

void add_artifacts(Markdown& page, const Reproduction& all) {
  for (const CellTable& part : cell_tables(all)) {
    page.heading(part.heading);
    page.table(part.table);
    page.list(part.remarks);
  }
  if (all.cells.empty()) return;
  page.heading("Verdicts");
  page.table(verdict_table(all));
  if (all.claims.empty()) return;
  page.heading("Claims");
  page.table(claim_table(all));
}

void add_published_errors(Markdown& page, const Records& records) {
  const Table table = published_errors(records);
  if (table.rows.empty()) return;
  page.heading("Errors on published runs");
  page.paragraph(
      "|predicted / published - 1| of the step time, on runs that others have measured and "
      "published: how far these virtual machines are off.");
  page.table(table);
}

/// How each case ended, and where: the same environment is described once.
void add_evidence(Markdown& page, const Records& records) {
  Table table{{{"case"}, {"on"}, {"scale"}, {"status"}, {"ended"}, {"build"}, {"command"}}, {}};
  std::vector<std::string> machines;
  for (const Record& r : records.all()) {
    nlohmann::json environment = nlohmann::json::parse(r.environment);
    table.rows.push_back({r.artifact + " " + r.case_id, setting_of(r).where(), scale_name(r.scale),
                          r.ok() ? "ok" : fmt::format("{}: {}", name_of(r.status), r.reason),
                          r.ended, build_of(r), r.command});
    environment.erase("load_average");
    if (std::string text = environment.dump();
        std::find(machines.begin(), machines.end(), text) == machines.end())
      machines.push_back(std::move(text));
  }
  page.heading("Evidence");
  page.table(table);
  page.paragraph("Environments in which these records were made:");
  page.list(machines);
}

}  // namespace

std::string markdown_report(const ReportedRecords& records, const Reproduction& numbers,
                            const Inventories& inventories,
                            const std::vector<std::filesystem::path>& pictures) {
  Markdown page{"# frugal report\n\n"};
  page.paragraph(
      "Numbers of the paper, of its formulas, of a virtual machine and measured ones stand in "
      "columns of their own, those of each size in a table of their own. Intervals are 95 % "
      "intervals of the median, of six samples or more.");
  add_artifacts(page, numbers);
  add_inventories(page, numbers, inventories);
  for (const Record& record : records.records.all()) {
    if (record.artifact != "measure") continue;
    page.heading("Measured configuration: " + record.case_id);
    page.table(measurement_table(record));
  }
  add_published_errors(page, records.records);
  if (!pictures.empty()) page.heading("Figures");
  for (const auto& picture : pictures)
    page.paragraph(fmt::format("![{}]({})", picture.filename().string(), picture.generic_string()));
  add_evidence(page, records.records);
  return page.text;
}

}  // namespace frugal::harness
