#include "harness/report/commands/attribution_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/record/or_null.h"
#include "harness/report/table.h"

namespace frugal::harness {
namespace {

std::string signed_number(const std::optional<double>& number) {
  if (!number) return "";
  return *number == 0 ? "0" : fmt::format("{}{}", *number > 0 ? "+" : "", format_number(*number));
}

std::string text_of(const Attribution& one) {
  Table table{{{"behaviour"}, {"known as"}, {"adds", true}, {"alone", true}, {"as the last", true}},
              {}};
  table.rows.push_back({"frugal", "", format_number(one.frugal), "", ""});
  for (const Term& term : one.terms)
    if (term.counts())
      table.rows.push_back({std::string(term.behaviour.behaviour->name),
                            std::string(name_of(term.behaviour.status)), signed_number(term.added),
                            signed_number(term.alone), signed_number(term.without)});
  table.rows.push_back({"the paper's program", "", format_number(one.program), "", ""});
  table.rows.push_back({"not explained", "", signed_number(one.unexplained()), "", ""});
  table.rows.push_back({"the paper", "", format_number(one.paper), "", ""});
  return fmt::format("{}: {}, {} ({})\n\n{}", one.artifact, one.row, one.column, one.unit,
                     table.text());
}

nlohmann::json json_of(const Attribution& one) {
  nlohmann::json terms = nlohmann::json::array();
  for (const Term& term : one.terms)
    terms.push_back({{"behaviour", term.behaviour.behaviour->name},
                     {"status", name_of(term.behaviour.status)},
                     {"added", or_null(term.added)},
                     {"alone", or_null(term.alone)},
                     {"as_the_last", or_null(term.without)}});
  return {{"artifact", one.artifact},
          {"row", one.row},
          {"column", one.column},
          {"unit", one.unit},
          {"paper", one.paper},
          {"frugal", or_null(one.frugal)},
          {"terms", terms},
          {"program", or_null(one.program)},
          {"unexplained", or_null(one.unexplained())}};
}

}  // namespace

std::string to_text(const std::vector<Attribution>& attributions) {
  std::string text;
  for (const Attribution& one : attributions)
    text += fmt::format("{}{}", text.empty() ? "" : "\n", text_of(one));
  return text;
}

nlohmann::json to_json(const std::vector<Attribution>& attributions, const std::string& command) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Attribution& one : attributions) cells.push_back(json_of(one));
  return {{"schema", "frugal.attribution/1"}, {"command", command}, {"cells", cells}};
}

}  // namespace frugal::harness
