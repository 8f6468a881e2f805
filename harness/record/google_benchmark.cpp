#include "harness/record/google_benchmark.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "harness/measure/statistics.h"
#include "harness/place/device_kind.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// Metrics beside the time, by Google Benchmark's names.
constexpr std::array rates{std::pair{"bytes_per_second", "bytes/s"},
                           std::pair{"items_per_second", "1/s"}};

double seconds_of(const JsonObject& run) {
  const auto unit = run.require<std::string>("time_unit");
  for (const auto& [name, seconds] :
       {std::pair{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}})
    if (unit == name) return seconds * run.number("real_time", 0);
  run.fail("time_unit", fmt::format("is \"{}\"; it must be ns, us, ms or s", unit));
}

/// What all runs of a file have in common.
Record common(const JsonObject& context, const std::string& path) {
  for (const char* key : {micro_context::environment, micro_context::program})
    if (!context.has(key))
      context.fail(key, "is not there; give what frugal_micro --benchmark_out wrote");
  Record record;
  record.artifact = "bench/micro";
  record.what = "benchmark";
  record.source = Source::measured;
  record.on = "cpu";
  record.program = context.require<std::string>(micro_context::program);
  const auto environment =
      parse_json(context.require<std::string>(micro_context::environment), path);
  record.environment = environment.dump();
  record.device = JsonObject(environment, path).object("processor").require<std::string>("model");
  record.command = "frugal_micro --benchmark_out=micro.json --benchmark_repetitions=N";
  record.started = record.ended = context.require<std::string>("date");
  return record;
}

/// The same of benchmarks of a device; what they have in common with those of the processor where
/// the file has none.
Record of_device(const JsonObject& context, const std::string& path, Record record) {
  if (!context.has(micro_context::devices)) return record;
  const auto said = parse_json(context.require<std::string>(micro_context::devices), path);
  const JsonObject device(said, path);
  record.on = device.require<std::string>("on");
  record.source = source_of(device_kind(record.on));
  record.device = device.require<std::string>("device");
  device.object("environment");  // or says that it is none
  record.environment = device.at("environment").dump();
  record.command += " --on=" + record.on;
  return record;
}

bool is_of_device(const std::string& name) {
  return name.starts_with(std::string(micro_context::device) + "/");
}

void add(Record& record, const JsonObject& run) {
  record.add_sample(metric::time, "s", seconds_of(run));
  for (const auto& [name, unit] : rates)
    if (run.has(name)) record.add_sample(name, unit, run.number(name, 0));
}

}  // namespace

std::vector<Record> read_google_benchmark(const std::string& path) {
  const nlohmann::json json = load_json(path);
  const JsonObject file(json, path);
  const Record blank = common(file.object("context"), path);
  const Record on_device = of_device(file.object("context"), path, blank);
  std::vector<Record> records;
  for (const JsonObject& run : file.objects("benchmarks")) {
    if (run.require<std::string>("run_type") != "iteration") continue;
    const auto name = run.require<std::string>("run_name");
    if (records.empty() || records.back().case_id != name) {
      records.push_back(is_of_device(name) ? on_device : blank);
      records.back().case_id = name;
      records.back().options = {{"timed_by", "Google Benchmark"}};
    }
    add(records.back(), run);
  }
  if (records.empty()) file.fail("benchmarks", "has no run; run some");
  for (Record& record : records) {
    record.options["repetitions"] = std::to_string(record.samples(metric::time).size());
    record.fingerprint = fingerprint_of(record);
  }
  return records;
}

Table google_benchmark_table(const std::vector<Record>& records) {
  Table table{{{"case"}, {"time, s", true}}, {}};
  for (const auto& [name, unit] : rates) table.columns.push_back({unit, true});
  table.columns.push_back({"repetitions", true});
  for (const Record& record : records) {
    std::vector<std::string>& row = table.rows.emplace_back(1, record.case_id);
    const auto add = [&](const std::string& name) {
      const std::vector<double>& samples = record.samples(name);
      row.push_back(samples.empty() ? "" : format_estimate(median_estimate(samples)));
    };
    add(metric::time);
    for (const auto& [name, unit] : rates) add(name);
    row.push_back(record.options.at("repetitions"));
  }
  return table;
}

}  // namespace frugal::harness
