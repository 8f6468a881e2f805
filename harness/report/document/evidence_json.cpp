#include "harness/report/document/evidence_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/measure/statistics.h"
#include "harness/report/measurement.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Lines of what, value and unit: all that `frugal measure` prints of a user's own run, of others
/// what was sampled, the peak, and what was found.
json quantities_of(const Record& record) {
  if (record.artifact == "measure" && record.ok()) return measurement_table(record).rows;
  json rows = json::array();
  for (const auto& [name, metric] : record.metrics) {
    if (metric.samples.empty()) continue;
    const size_t samples = metric.samples.size();
    rows.push_back({name, format_estimate(median_estimate(metric.samples)),
                    metric.unit + (samples == 1 ? "" : fmt::format(", {} samples", samples))});
  }
  if (record.memory) {
    for (const auto& [what, bytes] : {std::pair{"peak memory of a rank", record.memory->peak_total},
                                      {"host memory of a rank", record.memory->host_peak}}) {
      const auto [value, unit] = format_bytes(bytes);
      rows.push_back({what, value, unit});
    }
  }
  for (const auto& [name, text] : record.findings) rows.push_back({name, text, ""});
  return rows;
}

}  // namespace

Evidence::Evidence(const Records& records) : records_(records) {
  for (const Record& record : records.all())
    if (!settings_.contains(record.artifact))
      settings_[record.artifact] = records.settings(record.artifact);
}

std::vector<size_t> Evidence::of(const std::string& artifact, const Comparison& number) const {
  std::vector<size_t> positions;
  const auto all = settings_.find(artifact);
  if (number.source == Source::formula || all == settings_.end()) return positions;
  const auto setting = std::ranges::find_if(all->second, [&](const Setting& one) {
    return one.source == number.source && one.where() == number.on && one.scale == number.scale &&
           one.threads == number.threads;
  });
  if (setting == all->second.end()) return positions;
  const auto add = [&](const std::string& case_id) {
    const Record* record = records_.find(artifact, case_id, *setting);
    if (record == nullptr) return;
    const auto position = static_cast<size_t>(record - records_.all().data());
    if (std::ranges::count(positions, position) == 0) positions.push_back(position);
  };
  for (const std::string& id : number.cases) add(id);
  if (number.cases.empty())
    for (const Record& record : records_.all())
      if (record.artifact == artifact) add(record.case_id);
  return positions;
}

json record_evidence(const Record& record, json& environments) {
  json environment = json::parse(record.environment);
  environment.erase("load_average");
  const auto found = std::find(environments.begin(), environments.end(), environment);
  const auto number = found - environments.begin();
  if (found == environments.end()) environments.push_back(std::move(environment));
  return {{"artifact", record.artifact},
          {"case", record.case_id},
          {"on", setting_of(record).where()},
          {"device", record.device},
          {"scale", scale_name(record.scale)},
          {"status", name_of(record.status)},
          {"reason", record.reason},
          {"command", record.command},
          {"ended", record.ended},
          {"build", build_of(record)},
          {"program", record.program},
          {"machine", record.machine},
          {"fingerprint", record.fingerprint},
          {"environment", number},
          {"quantities", quantities_of(record)}};
}

}  // namespace frugal::harness
