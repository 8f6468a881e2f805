#include "harness/report/commands/rerun_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/measure/statistics.h"
#include "harness/place/device_kind.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Keys of a record whose values are compared.
std::vector<const char*> judged_keys(const Record& recorded, const Record& now) {
  if (recorded.source == Source::simulated)
    return {"reason", "metrics", "findings", "memory",     "flops",
            "work",   "losses",  "held_out", "utilization"};
  if (device_kind(recorded.on) == DeviceKind::cpu && recorded.device == now.device)
    return {"memory", "flops", "work", "losses", "held_out"};
  return {};
}

/// Every value of these keys, by JSON pointer.
json values_of_keys(const Record& record, const std::vector<const char*>& keys) {
  const json all = to_json(record);
  json some = json::object();
  for (const char* key : keys) some[key] = all.at(key);
  return some.flatten();
}

/// "/memory/peak_total" as "memory.peak_total".
std::string dotted(std::string pointer) {
  pointer.erase(0, 1);
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer;
}

std::string change_of(const json& recorded, const json& now) {
  if (!recorded.is_number() || !now.is_number() || recorded.get<double>() == 0) return "";
  return fmt::format("{:+.3g} %", 100 * (now.get<double>() / recorded.get<double>() - 1));
}

void judge(RerunRecord& record) {
  const std::vector<const char*> keys = judged_keys(*record.recorded, *record.now);
  const json recorded = values_of_keys(*record.recorded, keys);
  const json now = values_of_keys(*record.now, keys);
  json all = recorded;
  all.update(now);
  for (const auto& [pointer, either] : all.items()) {
    const auto before = recorded.find(pointer), after = now.find(pointer);
    const bool both = before != recorded.end() && after != now.end();
    if (both && *before == *after) {
      ++record.equal;
      continue;
    }
    record.values.push_back({.name = dotted(pointer),
                             .recorded = before == recorded.end() ? "" : before->dump(),
                             .now = after == now.end() ? "" : after->dump(),
                             .verdict = Again::differs,
                             .change = both ? change_of(*before, *after) : ""});
  }
}

std::string estimate_of(const Record& record, const std::string& metric) {
  const std::vector<double>& samples = record.samples(metric);
  return samples.empty() ? "" : format_estimate(median_estimate(samples));
}

/// Adds values of a real device without a verdict: no two runs take as long.
void add_unjudged(RerunRecord& record) {
  for (const auto& [name, metric] : record.recorded->metrics)
    record.values.push_back({.name = fmt::format("{}, {}", name, metric.unit),
                             .recorded = estimate_of(*record.recorded, name),
                             .now = estimate_of(*record.now, name),
                             .verdict = Again::not_judged});
}

/// Whether the case came to an end that another run of it comes to, too.
bool ended(const Record& record) { return record.ok() || record.status == Status::oom; }

constexpr size_t most_shown = 12;

std::string case_name(const Record& record) { return record.artifact + " " + record.case_id; }

}  // namespace

Again RerunRecord::verdict() const {
  if (!now) return Again::not_run;
  const bool differs = std::any_of(values.begin(), values.end(), [](const Value& value) {
    return value.verdict == Again::differs;
  });
  return differs ? Again::differs : equal > 0 ? Again::equal : Again::not_judged;
}

RerunRecord beside(size_t number, const Record& recorded, Record now) {
  RerunRecord record{.number = number, .recorded = &recorded, .now = std::move(now)};
  if (recorded.status != record.now->status) {
    record.values.push_back({.name = "status",
                             .recorded = std::string(name_of(recorded.status)),
                             .now = std::string(name_of(record.now->status)),
                             .verdict = ended(recorded) ? Again::differs : Again::not_judged});
    return record;
  }
  if (!ended(recorded)) return record;
  judge(record);
  if (recorded.source == Source::measured) add_unjudged(record);
  return record;
}

Table rerun_table(const std::vector<RerunRecord>& records) {
  Table table{{{"record", true},
               {"case"},
               {"on"},
               {"value"},
               {"recorded", true},
               {"now", true},
               {"verdict"}},
              {}};
  for (const RerunRecord& record : records) {
    const std::vector<std::string> who = {std::to_string(record.number),
                                          case_name(*record.recorded), record.recorded->on};
    const auto row = [&](std::vector<std::string> cells) {
      cells.insert(cells.begin(), who.begin(), who.end());
      table.rows.push_back(std::move(cells));
    };
    const auto differing = static_cast<size_t>(
        std::count_if(record.values.begin(), record.values.end(),
                      [](const auto& value) { return value.verdict == Again::differs; }));
    if (!record.now) row({"", "", "", "not run"});
    if (record.equal > 0)
      row({fmt::format("{} of {}", record.equal, record.equal + differing), "", "", "equal"});
    size_t shown = 0;
    for (const auto& value : record.values) {
      if (value.verdict == Again::differs && ++shown > most_shown) continue;
      const bool changed = !value.change.empty();
      row({value.name, value.recorded, value.now,
           fmt::format("{}{}{}", name_of(value.verdict), changed ? " by " : "", value.change)});
    }
    if (shown > most_shown) row({fmt::format("{} others", shown - most_shown), "", "", "differ"});
    if (record.now && record.equal == 0 && record.values.empty())
      row({"status", std::string(name_of(record.recorded->status)),
           std::string(name_of(record.now->status)), "not judged"});
  }
  return table;
}

json to_json(const std::vector<RerunRecord>& records) {
  json all = json::array();
  for (const RerunRecord& record : records) {
    json values = json::array();
    for (const auto& value : record.values)
      values.push_back({{"value", value.name},
                        {"recorded", value.recorded},
                        {"now", value.now},
                        {"change", value.change},
                        {"verdict", name_of(value.verdict)}});
    all.push_back({{"record", record.number},
                   {"artifact", record.recorded->artifact},
                   {"case", record.recorded->case_id},
                   {"on", record.recorded->on},
                   {"verdict", name_of(record.verdict())},
                   {"reason", record.reason},
                   {"equal", record.equal},
                   {"values", values}});
  }
  return {{"schema", "frugal.rerun/1"}, {"records", all}};
}

}  // namespace frugal::harness
