#include "harness/report/commands/benchmark_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/measure/control.h"

namespace frugal::harness {
namespace {

bool is_reference(const Reference& reference, const Record& record) {
  const auto& values = reference.values;
  return std::find(values.begin(), values.end(), record.options.at(reference.axis)) != values.end();
}

/// Whether both lie at the same place of all axes but that one.
bool beside(const Benchmark& benchmark, const std::string& axis, const Record& a, const Record& b) {
  return a.rounds == b.rounds &&
         std::all_of(benchmark.axes.begin(), benchmark.axes.end(), [&](const BenchmarkAxis& other) {
           return other.name == axis || a.options.at(other.name) == b.options.at(other.name);
         });
}

double work_of(const Record& record) { return median(record.samples(metric::work)); }

/// What a record is held against; null where there is nothing, and for the reference itself.
const Record* reference_of(const Benchmark& benchmark, const Record& record,
                           const std::vector<Record>& all) {
  const auto& reference = benchmark.reference;
  if (!reference || is_reference(*reference, record)) return nullptr;
  const Record* fastest = nullptr;
  double best = 0;
  for (const Record& other : all) {
    if (!other.ok() || !is_reference(*reference, other) ||
        !beside(benchmark, reference->axis, record, other))
      continue;
    const bool rated =
        other.metrics.count(metric::work) > 0 && other.metrics.count(metric::time) > 0;
    const double rate = rated ? work_of(other) / median(other.samples(metric::time)) : 0;
    if (fastest != nullptr && rate <= best) continue;
    fastest = &other;
    best = rate;
  }
  return fastest;
}

Estimate times(double factor, Estimate estimate) {
  estimate.value *= factor;
  if (estimate.interval)
    estimate.interval = {factor * estimate.interval->low, factor * estimate.interval->high};
  return estimate;
}

/// None where the record, or its reference, lacks what the column is made of.
std::optional<Estimate> shown(const ResultColumn& column, const Record& record,
                              const Record* reference) {
  const std::vector<double>& samples = record.samples(column.metric);
  if (samples.empty()) return std::nullopt;
  using Shows = ResultColumn::Shows;
  if (column.shows == Shows::value) return times(1 / column.unit, median_estimate(samples));
  if (column.shows == Shows::rate) {
    if (record.samples(metric::work).empty()) return std::nullopt;
    std::vector<double> rates;
    for (const double sample : samples) rates.push_back(work_of(record) / sample / column.unit);
    return median_estimate(rates);
  }
  if (reference == nullptr) return std::nullopt;
  const std::vector<double>& theirs = reference->samples(column.metric);
  if (theirs.size() != samples.size()) return std::nullopt;
  if (column.shows == Shows::ratio) return paired_ratio(samples, theirs);
  return times(work_of(record) / work_of(*reference), paired_ratio(theirs, samples));
}

/// Why a ratio is not the effect of what its case does otherwise than the reference; empty where it
/// may be.
std::string why_refused(const ResultColumn& column, const Record& record, const Record* reference) {
  if (column.control.empty() || reference == nullptr || reference->rounds != record.rounds)
    return "";
  const InRounds whole{record.samples(column.metric), reference->samples(column.metric)},
      control{record.samples(column.control), reference->samples(column.control)};
  for (const InRounds* each : {&whole, &control})
    if (each->with.empty() || each->with.size() != each->without.size()) return "";
  return why_no_effect(whole, control, column.control);
}

std::string text_of(const ResultColumn& column, const Record& record, const Record* reference) {
  if (!record.ok()) return "";
  if (column.shows == ResultColumn::Shows::finding) {
    const auto found = record.findings.find(column.metric);
    return found == record.findings.end() ? "" : found->second;
  }
  const std::optional<Estimate> estimate = shown(column, record, reference);
  if (!estimate) return "";
  if (!why_refused(column, record, reference).empty()) return "refused";
  return column.interval ? format_estimate(*estimate) : format_number(estimate->value);
}

/// How a case ended, and why a ratio of it is refused.
std::string status_of(const Benchmark& benchmark, const Record& record, const Record* reference) {
  if (!record.ok()) return fmt::format("{}: {}", name_of(record.status), record.reason);
  for (const ResultColumn& column : benchmark.columns)
    if (const std::string why = why_refused(column, record, reference); !why.empty())
      return fmt::format("ok; {} refused: {}", column.name, why);
  return "ok";
}

}  // namespace

Table benchmark_table(const Benchmark& benchmark, const std::vector<Record>& records) {
  Table table;
  for (const BenchmarkAxis& axis : benchmark.axes) table.columns.push_back({axis.name});
  table.columns.push_back({"source"});
  for (const ResultColumn& column : benchmark.columns)
    table.columns.push_back({column.name, column.shows != ResultColumn::Shows::finding});
  table.columns.push_back({"rounds", true});
  table.columns.push_back({"status"});
  for (const Record& record : records) {
    std::vector<std::string>& row = table.rows.emplace_back();
    for (const BenchmarkAxis& axis : benchmark.axes) row.push_back(record.options.at(axis.name));
    row.push_back(fmt::format("{}, {}", name_of(record.source), setting_of(record).where()));
    const Record* reference = reference_of(benchmark, record, records);
    for (const ResultColumn& column : benchmark.columns)
      row.push_back(text_of(column, record, reference));
    row.push_back(record.rounds.empty() ? "" : std::to_string(record.samples(metric::time).size()));
    row.push_back(status_of(benchmark, record, reference));
  }
  return table;
}

std::string benchmark_text(const Benchmark& benchmark, const std::vector<Record>& records,
                           std::string_view format) {
  std::string text = benchmark_table(benchmark, records).in(format);
  if (!benchmark.summary || format == "csv") return text;
  for (const std::string& line : benchmark.summary(records)) text += "\n" + line + "\n";
  return text;
}

}  // namespace frugal::harness
