#include "harness/report/commands/comparison_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/record/or_null.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// "bench/gemm 64x64 (threads 2)".
std::string full_name(const ComparedQuantity& q) {
  return q.which.empty() ? q.case_name : fmt::format("{} ({})", q.case_name, q.which);
}

/// Bytes as people read them, and others with their unit.
std::string value_of(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "";
  if (unit == "bytes") return format_bytes(static_cast<int64_t>(*value)).text();
  const std::string number = fmt::format("{:.6g}", *value);
  return unit.empty() || unit == "1" ? number : fmt::format("{} {}", number, unit);
}

std::string processes_of(const ComparedQuantity& q) {
  const std::string count = q.base_processes == q.candidate_processes
                                ? std::to_string(q.base_processes)
                                : fmt::format("{}, {}", q.base_processes, q.candidate_processes);
  return q.by_turns && q.base_processes > 1 ? count + " by turns" : count;
}

std::string p_of(const ComparedQuantity& q) { return q.p ? fmt::format("{:.2g}", *q.p) : ""; }

std::map<Change, int> counts_of(const ComparisonReport& report) {
  std::map<Change, int> counts;
  for (const ComparedQuantity& q : report.quantities) ++counts[q.change];
  return counts;
}

std::string counted(const ComparisonReport& report) {
  std::vector<std::string> texts;
  for (const auto& [change, count] : counts_of(report))
    texts.push_back(fmt::format("{} {}", count, name_of(change)));
  return fmt::format("Of {} quantities: {}.", report.quantities.size(), fmt::join(texts, ", "));
}

json to_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return {{"low", interval->low}, {"high", interval->high}};
}

json to_json(const ComparedQuantity& q) {
  return {{"case", q.case_name},
          {"which", q.which},
          {"quantity", q.quantity},
          {"unit", q.unit},
          {"base", or_null(q.base)},
          {"candidate", or_null(q.candidate)},
          {"ratio", q.ratio ? json(q.ratio->value) : json(nullptr)},
          {"interval", to_json(q.ratio ? q.ratio->interval : std::nullopt)},
          {"p", or_null(q.p)},
          {"base_processes", q.base_processes},
          {"candidate_processes", q.candidate_processes},
          {"by_turns", q.by_turns},
          {"change", name_of(q.change)},
          {"note", q.note}};
}

std::string message_of(const ComparedQuantity& q) {
  std::string text = fmt::format("{}", name_of(q.change));
  if (q.ratio) text += fmt::format(": {} times", format_estimate(*q.ratio));
  if (q.p) text += fmt::format(", p {}", p_of(q));
  return q.note.empty() ? text : fmt::format("{}; {}", text, q.note);
}

}  // namespace

bool ComparisonReport::fails(const ComparedQuantity& quantity) const {
  return std::find(fail_on.begin(), fail_on.end(), quantity.change) != fail_on.end();
}

Table change_table(const ComparisonReport& report) {
  Table table{{{"case"},
               {"quantity"},
               {"base", true},
               {"candidate", true},
               {"candidate / base", true},
               {"p", true},
               {"processes", true},
               {"change"},
               {"note"}},
              {}};
  for (const ComparedQuantity& q : report.quantities)
    table.rows.push_back({full_name(q), q.quantity, value_of(q.base, q.unit),
                          value_of(q.candidate, q.unit), q.ratio ? format_estimate(*q.ratio) : "",
                          p_of(q), processes_of(q), std::string(name_of(q.change)), q.note});
  return table;
}

std::vector<std::string> change_remarks(const ComparisonReport& report) {
  std::vector<std::string> remarks;
  for (const Difference& difference : report.differences)
    remarks.push_back(fmt::format("differs: {} is {} in the base and {} in the candidate",
                                  difference.name, difference.base, difference.candidate));
  for (const std::string& name : report.only_base)
    remarks.push_back(fmt::format("not compared: {} is in the base only", name));
  for (const std::string& name : report.only_candidate)
    remarks.push_back(fmt::format("not compared: {} is in the candidate only", name));
  for (const std::string& what : report.left_out) remarks.push_back("left out: " + what);
  const std::map<Change, int> counts = counts_of(report);
  if (counts.contains(Change::ambiguous) || counts.contains(Change::too_few))
    remarks.push_back(fmt::format(
        "ambiguous and too few samples: --repeat N runs both again as N processes by turns; an "
        "interval needs {} of each",
        interval_minimum));
  remarks.push_back(counted(report));
  return remarks;
}

json to_json(const ComparisonReport& report) {
  json differences = json::array(), quantities = json::array(), fail_on = json::array();
  for (const Difference& difference : report.differences)
    differences.push_back({{"name", difference.name},
                           {"base", difference.base},
                           {"candidate", difference.candidate}});
  for (const ComparedQuantity& quantity : report.quantities)
    quantities.push_back(to_json(quantity));
  for (const Change change : report.fail_on) fail_on.push_back(name_of(change));
  return {{"schema", ComparisonReport::schema}, {"base", report.base},
          {"candidate", report.candidate},      {"margin", report.options.margin},
          {"level", report.options.level},      {"across", report.across},
          {"differences", differences},         {"quantities", quantities},
          {"only_base", report.only_base},      {"only_candidate", report.only_candidate},
          {"left_out", report.left_out},        {"fail_on", fail_on}};
}

std::vector<JUnitCase> junit_cases(const ComparisonReport& report) {
  std::vector<JUnitCase> cases;
  for (const ComparedQuantity& q : report.quantities) {
    const bool fails = report.fails(q);
    cases.push_back({full_name(q), q.quantity,
                     fails ? JUnitCase::Outcome::failed : JUnitCase::Outcome::passed,
                     fails ? message_of(q) : "", message_of(q)});
  }
  return cases;
}

}  // namespace frugal::harness
