#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/record/record_file.h"
#include "harness/report/document/base64.h"
#include "harness/report/document/markdown_report.h"
#include "harness/report/document/report_document.h"
#include "harness/report/document/timeline_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;

struct ReportValues {
  std::vector<std::string> folders;
  std::string out, format = "pages";
  bool figures = false, force = false;
};

/// "korthikanti2022" of "out/korthikanti2022/".
std::string folder_name(const fs::path& folder) {
  const fs::path whole = fs::weakly_canonical(folder);
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

ReportedRecords records_of(const std::vector<std::string>& folders) {
  ReportedRecords all;
  for (const std::string& folder : folders) {
    if (records_file(folder) == folder)
      throw InputError(fmt::format("{} is a file; give the folder that it is in", folder));
    size_t line = 0;
    for (Record& record : records_in(folder)) {
      all.records.add(std::move(record));
      all.files.push_back(folder_name(folder) + "/" + RecordFile::name);
      all.lines.push_back(++line);
    }
  }
  return all;
}

/// PNG and SVG files in the folder's figures/.
std::vector<fs::path> pictures_of(const std::vector<std::string>& folders) {
  std::vector<fs::path> pictures;
  for (const fs::path folder : folders) {
    const auto begin = static_cast<std::ptrdiff_t>(pictures.size());
    if (!is_folder(folder / "figures")) continue;
    for (const auto& entry : fs::directory_iterator(folder / "figures"))
      if (entry.path().extension() == ".png" || entry.path().extension() == ".svg")
        pictures.push_back(entry.path());
    std::sort(pictures.begin() + begin, pictures.end());
  }
  return pictures;
}

/// Name and content of each.
std::vector<std::pair<std::string, std::string>> embedded(const std::vector<fs::path>& pictures) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const fs::path& picture : pictures)
    all.emplace_back(
        picture.filename().string(),
        fmt::format("data:image/{};base64,{}", picture.extension() == ".png" ? "png" : "svg+xml",
                    base64(read_text(picture.string()))));
  return all;
}

/// Where the pages go.
fs::path place_of(const ReportValues& values) {
  if (!values.out.empty()) return values.out;
  if (values.folders.size() == 1) return values.folders.front();
  throw InputError(
      fmt::format("--out is missing: {} folders make one page; say in which folder to "
                  "put it",
                  values.folders.size()));
}

Exit report(const ReportValues& values, const CommandLine& line) {
  const bool pages = values.format == "pages";
  const fs::path place = pages ? place_of(values) : fs::path();
  const ReportedRecords records = records_of(values.folders);
  const auto artifacts = reported_artifacts(line.artifacts(), records.records);
  const Reproduction numbers = all_numbers(artifacts);
  if (!pages) {
    fmt::print("{}\n", to_json(numbers).dump(2));
    return Exit::done;
  }
  std::error_code error;
  fs::create_directories(place, error);
  if (!is_folder(place))
    throw InputError(fmt::format("--out: {} is no folder and cannot be made one ({})",
                                 place.string(), error.message()));
  const std::string html = (place / "report.html").string();
  const std::string markdown = (place / "report.md").string();
  for (const std::string& file : {html, markdown})
    if (!values.force && is_there(file))
      throw InputError(fmt::format("{} exists; --force replaces it", file));
  std::vector<nlohmann::json> timelines;
  for (const std::string& folder : values.folders)
    for (nlohmann::json& one : recorded_timelines(folder)) timelines.push_back(std::move(one));
  const auto pictures = pictures_of(values.folders);
  std::vector<fs::path> relative;
  for (const fs::path& picture : pictures) relative.push_back(fs::relative(picture, place));
  const Inventories& inventories = line.papers().inventories;
  write_file(html, report_page(report_document(records, artifacts, inventories, timelines),
                               values.figures ? embedded(pictures) : embedded({})));
  write_file(markdown, markdown_report(records, numbers, inventories, relative));
  fmt::print("{}\n{}\n", html, markdown);
  return Exit::done;
}

}  // namespace

void add_report(CommandLine& line) {
  const auto values = std::make_shared<ReportValues>();
  Flags flags = line.command("report", "One page from the records of folders, for a browser",
                             [values, &line] { return report(*values, line); });
  flags.positional("DIR", values->folders,
                   "What --out was when the records were made; several make one page", true);
  flags.text("--out", values->out, "DIR",
             "Where report.html and report.md go; otherwise into DIR, where there is one");
  flags.choice("--format", values->format, {"pages", "json"},
               "pages: report.html and report.md; json: what `frugal reproduce` prints, on stdout, "
               "of all that is recorded, also where the run was killed");
  flags.toggle("--figures", values->figures,
               "Also put the pictures of each DIR's figures/ into the page");
  flags.toggle("--force", values->force, "Replace an earlier report");
}

}  // namespace frugal::harness
