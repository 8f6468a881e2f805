#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/cli/command_line.h"
#include "harness/record/record_file.h"
#include "harness/report/base64.h"
#include "harness/report/measurement.h"
#include "harness/report/verdicts.h"
#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* style = R"(<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: 0.2em 0.7em; border-bottom: 1px solid #ddd; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1em 0; } img { max-width: 100%; }
</style>
)";

/// The two forms of one document.
struct Document {
  std::string html, markdown;

  void heading(const std::string& text) {
    html += "<h2>" + escape_html(text) + "</h2>\n";
    markdown += "## " + text + "\n\n";
  }
  void paragraph(const std::string& text) {
    html += "<p>" + escape_html(text) + "</p>\n";
    markdown += text + "\n\n";
  }
  void table(const Table& table) {
    html += table.html();
    markdown += table.markdown() + "\n";
  }
  void list(const std::vector<std::string>& items) {
    if (items.empty()) return;
    html += "<ul>\n";
    for (const auto& item : items) {
      html += "<li>" + escape_html(item) + "</li>\n";
      markdown += "- " + item + "\n";
    }
    html += "</ul>\n";
    markdown += "\n";
  }
};

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  if (!(content << in.rdbuf())) throw InputError(fmt::format("{} cannot be read", path.string()));
  return content.str();
}

/// The page stands alone: figures are inside it.
void add_figures(Document& document, const fs::path& folder) {
  std::vector<fs::path> figures;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".png" || entry.path().extension() == ".svg")
        figures.push_back(entry.path());
  if (figures.empty()) return;
  std::sort(figures.begin(), figures.end());
  document.heading("Figures");
  for (const fs::path& figure : figures) {
    const std::string name = figure.filename().string();
    document.html += fmt::format(
        "<figure><img alt=\"{0}\" src=\"data:image/{1};base64,{2}\"><figcaption>{0}</figcaption>"
        "</figure>\n",
        escape_html(name), figure.extension() == ".png" ? "png" : "svg+xml",
        base64(content_of(figure)));
    document.markdown += fmt::format("![{0}](figures/{0})\n\n", name);
  }
}

/// Of the artifacts that have records.
Reproduction reproduction_of(const Records& records, const Artifacts& artifacts) {
  Reproduction all;
  for (const Artifact* artifact : artifacts)
    if (!records.settings(artifact->id()).empty()) all.add(*artifact, records);
  return all;
}

/// Of the papers of which something was run.
void add_inventories(Document& document, const Reproduction& all, const Inventories& inventories) {
  for (const Inventory& inventory : inventories) {
    const bool any = std::any_of(all.cells.begin(), all.cells.end(), [&](const Cell& cell) {
      return cell.artifact.starts_with(inventory.paper + "/");
    });
    if (!any) continue;
    document.heading("What of " + inventory.paper + " there is");
    document.table(inventory_table(inventory, all));
  }
}

void add_artifacts(Document& document, const Reproduction& all) {
  for (const CellTable& part : cell_tables(all)) {
    document.heading(part.heading);
    document.table(part.table);
    document.list(part.remarks);
  }
  if (all.cells.empty()) return;
  document.heading("Verdicts");
  document.table(verdict_table(all));
  if (all.claims.empty()) return;
  document.heading("Claims");
  document.table(claim_table(all));
}

/// How each case ended, and where: the same environment is described once.
void add_evidence(Document& document, const Records& records) {
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
  document.heading("Evidence");
  document.table(table);
  document.paragraph("Environments in which these records were made:");
  document.list(machines);
}

Document document_of(const Records& records, const CommandLine& line, const fs::path& folder) {
  Document document;
  document.html = fmt::format(
      "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
      "<title>frugal report</title>\n{}<h1>frugal report</h1>\n",
      style);
  document.markdown = "# frugal report\n\n";
  document.paragraph(
      "Numbers of the paper, of its formulas, of a virtual machine and measured ones stand in "
      "columns of their own, those of each size in a table of their own. Intervals are 95 % "
      "percentile bootstrap intervals of the median, of six samples or more.");
  const Reproduction all = reproduction_of(records, line.artifacts());
  add_artifacts(document, all);
  add_inventories(document, all, line.papers().inventories);
  for (const Record& record : records.all()) {
    if (record.artifact != "measure") continue;
    document.heading("Measured configuration: " + record.case_id);
    document.table(measurement_table(record));
  }
  add_figures(document, folder / "figures");
  add_evidence(document, records);
  document.html += "</html>\n";
  return document;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush()) throw CannotWrite(path.string(), errno);
  fmt::print("{}\n", path.string());
}

Exit report(const fs::path& folder, const std::string& format, bool force,
            const CommandLine& line) {
  bool truncated = false;
  Records records;
  for (Record& record : read_records(folder.string(), truncated)) records.add(std::move(record));
  if (truncated) fmt::print(stderr, "frugal: a line of the records was cut off and is left out\n");
  if (format == "json") {
    fmt::print("{}\n", to_json(reproduction_of(records, line.artifacts())).dump(2));
    return Exit::done;
  }
  for (const char* name : {"report.html", "report.md"})
    if (!force && is_there(folder / name))
      throw InputError(fmt::format("{} exists; --force replaces it", (folder / name).string()));
  const Document document = document_of(records, line, folder);
  write(folder / "report.html", document.html);
  write(folder / "report.md", document.markdown);
  return Exit::done;
}

}  // namespace

void add_report(CommandLine& line) {
  struct Values {
    std::string folder, format = "pages";
    bool force = false;
  };
  const auto values = std::make_shared<Values>();
  Flags flags = line.command(
      "report", "One HTML page and Markdown from a folder's records",
      [=, &line] { return report(values->folder, values->format, values->force, line); });
  flags.positional("DIR", values->folder, "What --out was; its figures/ are included");
  flags.choice("--format", values->format, {"pages", "json"},
               "pages: report.html and report.md in DIR; json: what `frugal reproduce` prints, on "
               "stdout, of all that is recorded, also where the run was killed");
  flags.toggle("--force", values->force, "Replace an earlier report");
}

}  // namespace frugal::harness
