#include "harness/report/record_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "harness/measure/statistics.h"
#include "harness/settings/field.h"

namespace frugal::harness {
namespace {

/// A number, or several samples of it.
struct Value {
  std::string name, unit;
  std::vector<double> samples;
  int stage = -1;  ///< −1: of all
};

std::string digits(double value) { return fmt::format("{}", value); }
std::string digits(const std::optional<double>& value) { return value ? digits(*value) : ""; }

class Values {
 public:
  explicit Values(const Record& record) {
    for (const auto& [name, metric] : record.metrics)
      all.push_back({name, metric.unit, metric.samples});
    if (record.memory) add(*record.memory);
    if (record.needed) {
      bytes("needed_memory", record.needed->memory.peak_total);
      kinds("needed_memory_at_peak", fullest_stage(record.needed->memory).at_peak);
      bytes("needed_host_memory", record.needed->memory.host_peak);
    }
    if (record.flops) {
      one("model_flops", "FLOP", record.flops->model);
      one("hardware_flops", "FLOP", record.flops->hardware);
      if (record.flops->hardware_eq8)
        one("hardware_flops_as_printed", "FLOP", *record.flops->hardware_eq8);
    }
    if (record.work) {
      const auto done = record.work->done.total();
      one("operations", "1", done.count);
      one("bytes_moved", "B", done.cost.bytes);
      one("least_bytes", "B", record.work->least.total());
    }
    if (record.utilization) add(*record.utilization);
    if (!record.losses.empty()) all.push_back({"loss", "nat", record.losses});
    for (const auto& [step, loss] : record.held_out)
      one(fmt::format("held_out_loss_of_step_{}", step), "nat", loss);
  }
  std::vector<Value> all;

 private:
  void one(const std::string& name, const char* unit, double value, int stage = -1) {
    all.push_back({name, unit, {value}, stage});
  }
  /// Bytes; a double has all of a whole number's below 2^53.
  void bytes(const std::string& name, int64_t value, int stage = -1) {
    one(name, "B", static_cast<double>(value), stage);
  }
  void kinds(const std::string& name, const BytesPerKind& per_kind, int stage = -1) {
    for (int kind = 0; kind < kind_count; ++kind)
      bytes(fmt::format("{}_{}", name, name_of(static_cast<Kind>(kind))),
            per_kind.at(static_cast<size_t>(kind)), stage);
  }
  void add(const Memory& memory) {
    bytes("peak_memory", memory.peak_total);
    kinds("peak_memory", memory.peak);
    if (memory.after_forward) kinds("memory_after_forward", *memory.after_forward);
    if (memory.reserved) bytes("reserved_memory", *memory.reserved);
    bytes("peak_host_memory", memory.host_peak);
    for (size_t i = 0; i < memory.stages.size(); ++i) {
      const auto stage = static_cast<int>(i);
      bytes("peak_memory", memory.stages[i].peak, stage);
      kinds("peak_memory", memory.stages[i].peak_per_kind, stage);
      kinds("memory_at_peak", memory.stages[i].at_peak, stage);
    }
  }
  void add(const Utilization& u) {
    const auto known = [this](const char* name, const std::optional<double>& value,
                              const char* unit) {
      if (value) one(name, unit, *value);
    };
    known("mfu_data_sheet", u.mfu_data_sheet.value, "1");
    known("hfu_data_sheet", u.hfu_data_sheet.value, "1");
    known("mfu_measured", u.mfu_measured.value, "1");
    known("hfu_measured", u.hfu_measured.value, "1");
    if (u.at_clock) {
      known("mfu_at_mean_clock", u.at_clock->mfu.value, "1");
      known("hfu_at_mean_clock", u.at_clock->hfu.value, "1");
    }
    known("data_sheet_peak", u.data_sheet_peak, "FLOP/s");
    known("measured_peak", u.measured_peak, "FLOP/s");
  }
};

/// Fields of configurations, which are columns.
std::vector<const Field*> configuration_columns() {
  std::vector<const Field*> columns;
  for (const Field& field : fields())
    if (field.of != FieldOf::command) columns.push_back(&field);
  return columns;
}

/// "program" is the behaviour that a run has, and "name" the model's.
std::string column_name(const Field& field) {
  return field.key == "name" ? "model" : field.key == "program" ? "behaviour" : field.key;
}

std::vector<std::string> key_cells(const Record& record, size_t number) {
  return {std::to_string(number),
          record.artifact,
          record.case_id,
          record.what,
          std::string(name_of(record.source)),
          record.on,
          record.device,
          record.modelled ? record.modelled->machine : "",
          std::to_string(record.scale),
          std::string(name_of(record.status)),
          record.reason};
}

const std::vector<Table::Column>& key_columns() {
  static const std::vector<Table::Column> columns = {
      {"record", true}, {"artifact"},  {"case"},        {"what"},   {"source"}, {"on"},
      {"device"},       {"lone_rank"}, {"scale", true}, {"status"}, {"reason"}};
  return columns;
}

std::vector<std::string> value_cells(const Value& value) {
  if (value.name.empty()) return std::vector<std::string>(8);
  const Estimate estimate = median_estimate(value.samples);
  std::vector<std::string> texts;
  for (const double sample : value.samples) texts.push_back(digits(sample));
  const auto interval = estimate.interval;
  return {value.name,
          value.stage < 0 ? "" : std::to_string(value.stage),
          value.unit,
          digits(estimate.value),
          digits(interval ? std::optional(interval->low) : std::nullopt),
          digits(interval ? std::optional(interval->high) : std::nullopt),
          std::to_string(value.samples.size()),
          fmt::format("{}", fmt::join(texts, " "))};
}

}  // namespace

Table record_rows(const std::vector<Record>& records) {
  Table table{key_columns(), {}};
  for (const char* name :
       {"quantity", "stage", "unit", "median", "low", "high", "samples", "values"})
    table.columns.push_back({name, true});
  const std::vector<const Field*> configuration = configuration_columns();
  for (const Field* field : configuration) table.columns.push_back({column_name(*field)});
  for (const char* name : {"options", "rounds", "fingerprint", "machine", "program", "build",
                           "started", "ended", "command"})
    table.columns.push_back({name});
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    std::vector<std::string> behind;
    RunSettings settings;
    settings.config = record.config;
    for (const Field* field : configuration) {
      const nlohmann::json value = field->get(settings);
      const bool open = value.is_null() && field->type.is_switch();
      behind.push_back(has_configuration(record.config) && !open ? field->type.text(value) : "");
    }
    for (const std::string& text :
         {nlohmann::json(record.options).dump(), record.rounds, record.fingerprint, record.machine,
          record.program, build_of(record), record.started, record.ended, record.command})
      behind.push_back(text);
    std::vector<Value> values = Values(record).all;
    if (values.empty()) values.push_back({});
    for (const Value& value : values) {
      std::vector<std::string>& row = table.rows.emplace_back(key_cells(record, i));
      for (std::string& cell : value_cells(value)) row.push_back(std::move(cell));
      row.insert(row.end(), behind.begin(), behind.end());
    }
  }
  return table;
}

}  // namespace frugal::harness
