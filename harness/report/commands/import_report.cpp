#include "harness/report/commands/import_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/calibrate/known_errors.h"
#include "harness/measure/statistics.h"
#include "harness/report/measurement.h"

namespace frugal::harness {
namespace {

/// Each list, what it is called, and its key in JSON.
struct List {
  std::string_view name, key;
  std::vector<Imported::Part> Imported::*parts;
};
constexpr std::array lists = {List{"not known", "unknown", &Imported::unknown},
                              List{"frugal does not have it", "missing", &Imported::missing},
                              List{"a field of frugal's", "mapped", &Imported::mapped},
                              List{"assumed", "assumed", &Imported::assumed},
                              List{"changes neither memory nor time", "same", &Imported::same}};
constexpr std::string_view not_followed = "not followed";
constexpr std::string_view arguments_left_out = "arguments in it are left out";

/// Bytes that the run takes, or needs where it was out of memory; null where neither is known.
const Memory* memory_of(const Record& run) {
  if (run.needed) return &run.needed->memory;
  return run.memory ? &*run.memory : nullptr;
}

/// The text in lines of at most so many characters, where its words allow it; each but the first
/// begins with so many blanks.
std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const bool fits = column == indent || column + 1 + (end - at) <= width;
    if (!fits) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out;
}

/// Setting with what becomes of it beside it, or on the next line where the setting is long.
std::string said_line(const std::string& said, const std::string& what) {
  constexpr size_t width = 120, indent = 44;
  std::string line = "  " + said;
  if (line.size() + 2 > indent)
    line += "\n" + std::string(indent, ' ');
  else
    line.resize(indent, ' ');
  return line + wrapped(what, width, indent) + "\n";
}

/// One line that names the settings that a run is without; empty where there are none.
std::string run_without(const Imported& imported) {
  std::vector<std::string> names;
  for (const auto* list : {&imported.missing, &imported.unknown})
    for (const Imported::Part& part : *list) names.push_back(part.said);
  if (names.empty()) return "";
  return wrapped(fmt::format("Without {}: what each would change stands below.",
                             fmt::join(names, ", ")),
                 120, 0) +
         "\n";
}

/// Line on how far that time may be off; empty of one that was measured.
std::string band_line(const Record& run) {
  if (run.source != Source::simulated) return "";
  const std::optional<Band> band = find_band(run);
  const std::string line =
      band ? "How far off that is: " + band->text() + "."
           : "How far off that is is not known: no run like it is published, of this machine and "
             "program.";
  return wrapped(line, 120, 0) + "\n";
}

}  // namespace

std::string ImportReport::answer() const {
  std::string text;
  if (!records.empty()) text += parameters_line(records.front().config.model);
  if (!not_run.empty()) text += fmt::format("Not run: {}.\n", not_run);
  if (!records.empty()) {
    const Record& run = records.front();
    const Memory* const memory = memory_of(run);
    const std::string peak =
        memory == nullptr ? "" : fmt::format("{} of ", format_bytes(memory->peak_total).text());
    const std::string reserved =
        memory != nullptr && memory->reserved.value_or(0) > memory->peak_total
            ? fmt::format(", for which its allocator reserves {}",
                          format_bytes(*memory->reserved).text())
            : "";
    const int ranks = run.config.ranks();
    const std::string fits = run.status == Status::oom ? "does not fit"
                             : run.ok()                ? "fits"
                                                       : std::string(name_of(run.status));
    text += fmt::format("It {}: a rank needs {}{} on {}, {} {}{}.\n", fits, peak,
                        format_bytes(capacity).text(), run.on, ranks, ranks == 1 ? "rank" : "ranks",
                        reserved);
    if (!imported.predicts.empty())
      text += wrapped(fmt::format("That is {}.", imported.predicts), 120, 0) + "\n";
    if (const auto& times = run.samples(metric::step_time); !times.empty())
      text +=
          fmt::format("A step takes {} s{}.\n", format_estimate(median_estimate(times)),
                      run.utilization && run.utilization->mfu_data_sheet.value
                          ? fmt::format(", MFU {} %",
                                        format_number(100 * *run.utilization->mfu_data_sheet.value))
                          : "") +
          band_line(run);
    text += run_without(imported);
  }
  if (!command.empty()) text += fmt::format("\n{}\n", command);
  return text;
}

Table ImportReport::parts() const {
  Table table{{{"what it is"}, {"as it stands there"}, {"what becomes of it"}}, {}};
  for (const List& list : lists)
    for (const Imported::Part& part : imported.*list.parts)
      table.rows.push_back({std::string(list.name), part.said, part.what});
  for (const std::string& text : imported.left_out)
    table.rows.push_back({std::string(not_followed), text, std::string(arguments_left_out)});
  return table;
}

std::string ImportReport::lists_of_parts() const {
  std::string text, name;
  for (const std::vector<std::string>& row : parts().rows) {
    if (row[0] != name) text += fmt::format("\n{}\n", row[0]);
    name = row[0];
    text += said_line(row[1], row[2]);
  }
  return text;
}

std::string ImportReport::in(const std::string& format) const {
  std::string text = answer();
  text += format == "table" ? lists_of_parts() : "\n" + parts().in(format);
  for (const Record& record : records) text += "\n" + measurement_table(record).in(format);
  return text;
}

nlohmann::json ImportReport::json() const {
  const auto band = records.empty() ? std::nullopt : find_band(records.front());
  nlohmann::json document = {
      {"schema", "frugal.import/1"},
      {"format", imported.format},
      {"configuration", imported.given},
      {"not_followed", imported.left_out},
      {"command", command.empty() ? nlohmann::json() : nlohmann::json(command)},
      {"not_run", not_run.empty() ? nlohmann::json() : nlohmann::json(not_run)},
      {"predicts",
       imported.predicts.empty() ? nlohmann::json() : nlohmann::json(imported.predicts)},
      {"band", band ? to_json(*band) : nlohmann::json()},
      {"parameters", parameters > 0 ? nlohmann::json(parameters) : nlohmann::json()},
      {"records", nlohmann::json::array()}};
  for (const List& list : lists) {
    nlohmann::json parts = nlohmann::json::array();
    for (const Imported::Part& part : imported.*list.parts)
      parts.push_back({{"said", part.said}, {"what", part.what}});
    document[std::string(list.key)] = parts;
  }
  for (const Record& record : records) document["records"].push_back(to_json(record));
  return document;
}

}  // namespace frugal::harness
