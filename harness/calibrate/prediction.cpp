#include "harness/calibrate/prediction.h"

#include "harness/measure/statistics.h"

namespace frugal::harness {
namespace {

/// Stages of a pipeline run alone as on one GPU: parts of their time are predicted too.
void predict_on(const std::string& machine, Case& c) {
  c.on = "virtual:" + machine;
  if (c.config.pipeline_parallel == 1) c.lone_rank.clear();
  for (Case& smaller : c.smaller) predict_on(machine, smaller);
}

}  // namespace

std::vector<Case> predicted_cases(const Artifact& artifact, const Machine& machine) {
  Selection selection;
  selection.virtual_machine = selection.cpu = false;
  selection.cuda = GpuSelection{.count = 1, .machine = machine.name, .gpu = {}};
  std::vector<Case> cases = artifact.cases(selection);
  for (Case& c : cases) predict_on(machine.name, c);
  return cases;
}

Table prediction_table(const std::vector<Record>& records) {
  Table table{{{"case"}, {"quantity"}, {"predicted", true}, {"unit"}}, {}};
  for (const Record& record : records) {
    const std::string name = record.artifact + " " + record.case_id;
    for (const auto& [quantity, metric] : record.metrics)
      table.rows.push_back({name, quantity, format_number(median(metric.samples)), metric.unit});
    if (record.memory)
      table.rows.push_back({name, "peak_memory",
                            format_number(static_cast<double>(record.memory->peak_total) /
                                          static_cast<double>(int64_t{1} << 30)),
                            "GiB"});
    if (!record.ok())
      table.rows.push_back({name, std::string(name_of(record.status)), "", record.reason});
  }
  return table;
}

}  // namespace frugal::harness
