#include "harness/report/commands/import_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

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

}  // namespace

Table ImportReport::parts() const {
  Table table{{{"what it is"}, {"as it stands there"}, {"what becomes of it"}}, {}};
  for (const List& list : lists)
    for (const Imported::Part& part : imported.*list.parts)
      table.rows.push_back({std::string(list.name), part.said, part.what});
  for (const std::string& text : imported.left_out)
    table.rows.push_back({"not followed", text, "arguments in it are left out"});
  return table;
}

std::string ImportReport::in(const std::string& format) const {
  std::string text = parts().in(format);
  if (!command.empty()) text += fmt::format("\n{}\n", command);
  for (const Record& record : records) text += "\n" + measurement_table(record).in(format);
  return text;
}

nlohmann::json ImportReport::json() const {
  nlohmann::json document = {
      {"schema", "frugal.import/1"},
      {"format", imported.format},
      {"configuration", imported.given},
      {"not_followed", imported.left_out},
      {"command", command.empty() ? nlohmann::json() : nlohmann::json(command)},
      {"not_run", not_run.empty() ? nlohmann::json() : nlohmann::json(not_run)},
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
