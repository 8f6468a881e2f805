#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/machine_flags.h"
#include "harness/cli/record_flags.h"
#include "harness/cli/timing_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runner.h"
#include "harness/place/environment.h"
#include "harness/place/processes.h"
#include "harness/record/google_benchmark.h"
#include "harness/report/commands/benchmark_report.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

struct BenchValues {
  std::vector<std::string> names;
  std::string on, hardware, glob, read, format = "table";
  std::optional<int> threads;  // all processors otherwise
  TimingPlan timing;
  RecordFlags records;
  bool list = false;
};

const Benchmark& benchmark_of(const BenchValues& values, const Benchmarks& all) {
  if (values.names.size() > 1)
    throw InputError(fmt::format("{}: one benchmark at a time; leave the others out",
                                 fmt::join(values.names, " ")));
  std::vector<std::string> known;
  for (const Benchmark* benchmark : all) {
    if (benchmark->name == values.names.front()) return *benchmark;
    known.push_back(benchmark->name);
  }
  const auto similar = nearest(values.names.front(), known);
  throw InputError(fmt::format(
      "there is no benchmark \"{}\"; {}`frugal bench` lists all", values.names.front(),
      similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", "))));
}

void print(const Table& table, const nlohmann::json& json, const std::string& format) {
  fmt::print("{}", format == "json" ? json.dump(2) + "\n" : table.in(format));
}

/// All benchmarks, in a line each.
void list(const Benchmarks& all, const std::string& format) {
  Table table{{{"benchmark"}, {"axes"}, {"title"}}, {}};
  nlohmann::json json = nlohmann::json::array();
  for (const Benchmark* benchmark : all) {
    std::vector<std::string> axes;
    nlohmann::json values = nlohmann::json::array();
    for (const BenchmarkAxis& axis : benchmark->axes) {
      axes.push_back(fmt::format("{} ({})", axis.name, axis.values.size()));
      values.push_back({{"name", axis.name}, {"values", axis.values}});
    }
    table.rows.push_back(
        {benchmark->name, fmt::format("{}", fmt::join(axes, ", ")), benchmark->title});
    json.push_back({{"name", benchmark->name}, {"title", benchmark->title}, {"axes", values}});
  }
  print(table, {{"schema", "frugal.benchmarks/1"}, {"benchmarks", json}}, format);
}

void list_cases(const std::vector<Case>& cases, const std::string& format) {
  Table table{{{"case"}, {"on"}}, {}};
  nlohmann::json json = nlohmann::json::array();
  for (const Case& c : cases) {
    table.rows.push_back({c.id, c.on});
    json.push_back({{"id", c.id}, {"on", c.on}});
  }
  print(table, {{"schema", "frugal.benchmark-cases/1"}, {"cases", json}}, format);
}

bool any_on_cpu(const std::vector<Case>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const Case& c) { return device_kind(c.on) == DeviceKind::cpu; });
}

bool any_has_rounds(const std::vector<Case>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const Case& c) { return !rounds_of(c).empty(); });
}

/// With every choice that decides the numbers, and no path.
std::string command_of(const BenchValues& values, const Benchmark& benchmark,
                       const std::vector<Case>& cases, int threads) {
  std::string command = fmt::format("frugal bench {}", benchmark.name);
  if (!values.on.empty() || any_on_cpu(cases)) command += fmt::format(" --on {}", cases.front().on);
  if (!values.glob.empty()) command += fmt::format(" --case '{}'", values.glob);
  if (any_has_rounds(cases)) command += timing_flags(values.timing);
  if (any_on_cpu(cases)) command += fmt::format(" --threads {}", threads);
  return command;
}

/// Where processes were started that do not run the same, none would come to its end.
void check_processes_agree(const BenchValues& values, const std::string& command) {
  if (Processes* const processes = Processes::here())
    processes->agree({{"program", program_hash()},
                      {"command", command},
                      {"rerun", values.records.rerun.which},
                      {"force", values.records.force}});
}

Exit bench(const BenchValues& values, const Benchmark& benchmark) {
  // Other benchmarks would measure each other.
  if (!benchmark.processes) Processes::need_one("frugal bench " + benchmark.name);
  const std::vector<Case> cases = cases_of(benchmark, values.on, values.glob);
  if (values.list) {
    list_cases(cases, values.format);
    return Exit::done;
  }
  check_threads(values.threads, cases.front().on, any_on_cpu(cases));
  const int threads = values.threads.value_or(usable_processors());
  make_target({.on = cases.front().on, .threads = threads});  // says why it cannot be used
  values.records.check({cases});
  const std::string command = command_of(values, benchmark, cases, threads);
  check_processes_agree(values, command);
  catch_interrupts();
  Progress progress(cases.size());
  RecordFile file = values.records.open(progress);
  Runner runner(file, progress,
                {.place = {.threads = threads},
                 .timing = values.timing,
                 .command = command,
                 .rerun = values.records.rerun});
  const std::vector<Record> records = runner.run(benchmark.artifact(), cases).all();
  progress.finish();
  if (values.format == "json")
    fmt::print("{}\n", to_json(records).dump(2));
  else
    fmt::print("{}", benchmark_text(benchmark, records, values.format));
  Exit worst = Exit::done;
  for (const Record& record : records) worst = std::max(worst, exit_of(record.status));
  return worst;
}

/// What Google Benchmark measured becomes records like all others.
Exit read(const BenchValues& values) {
  if (!values.records.rerun.which.empty())
    throw InputError("--rerun and --read: the file says what was run; leave --rerun out");
  const std::vector<Record> records = read_google_benchmark(values.read);
  Progress progress;
  RecordFile file = values.records.open(progress);
  for (const Record& record : records)
    if (last_final(file.records(), record) == nullptr) file.append(record);
  print(google_benchmark_table(records), to_json(records), values.format);
  return Exit::done;
}

Exit chosen(BenchValues values, const Benchmarks& all) {
  values.on = place_named(values.on, values.hardware);
  if (!values.read.empty()) {
    if (!values.names.empty())
      throw InputError(fmt::format("--read and {}: the file says what was run; leave {} out",
                                   values.names.front(), values.names.front()));
    return read(values);
  }
  if (!values.names.empty()) return bench(values, benchmark_of(values, all));
  if (!values.glob.empty())
    throw InputError("--case is of a benchmark; name one, `frugal bench` lists all");
  list(all, values.format);
  return Exit::done;
}

}  // namespace

void add_bench(CommandLine& line) {
  const auto values = std::make_shared<BenchValues>();
  Flags flags = line.command(
      "bench",
      "Run a benchmark: cases along its axes, timed by turns, beside what they are held "
      "against. Without a name: what there is",
      [values, &line] { return chosen(*values, line.benchmarks()); },
      CommandLine::Ranks::threads_or_processes);
  flags.positional("NAME", values->names, "The benchmark", false);
  flags.toggle("--list", values->list, "Show its cases and run none");
  flags.text("--case", values->glob, "GLOB",
             "Only the cases whose names it matches, and what is timed by turns with them");
  flags.text(
      "--on", values->on, "PLACE",
      "Where: cpu, cuda, or virtual:MACHINE; the cpu otherwise, or where the benchmark says");
  flags.text("--hardware", values->hardware, "NAME|FILE", "The same as --on virtual:NAME");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  add_timing_flags(flags, values->timing);
  flags.format(values->format, "How to print the result on stdout; json has the records");
  values->records.add_to(flags);
  flags.text(
      "--read", values->read, "FILE",
      "Record what Google Benchmark wrote (frugal_micro --benchmark_out=FILE), and run nothing");
}

}  // namespace frugal::harness
