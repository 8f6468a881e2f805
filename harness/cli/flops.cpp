#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/cli/command_line.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/flop_conventions.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/runs/training.h"
#include "harness/measure/statistics.h"
#include "harness/peaks/utilization.h"
#include "harness/place/device_kind.h"
#include "harness/record/or_null.h"
#include "harness/report/measurement.h"
#include "harness/report/table.h"
#include "harness/settings/resolve.h"

namespace frugal::harness {
namespace {

struct FlopsValues {
  RunFlags run{groups_of_a_training};
  std::optional<double> step_time;
  std::string format = "table";
};

/// A step's FLOPs by one convention, and the fraction of the devices' peak that they are.
struct CountedFlops : FlopConvention {
  std::optional<double> utilization;
};

/// Those of a model, and what the run executed, recomputation too.
std::vector<CountedFlops> all_counted(const RunConfig& config, double executed, double seconds,
                                      const std::optional<double>& peak) {
  const auto sequences = static_cast<double>(config.micro_batch * config.batch_microbatches());
  std::vector<FlopConvention> conventions = flop_conventions(config.model, sequences);
  conventions.push_back(
      {"hardware", "products that are executed, recomputed ones too", "executed", executed});
  std::vector<CountedFlops> all;
  for (FlopConvention& one : conventions) {
    const double rate = one.flops / seconds;
    all.push_back({std::move(one), peak ? std::optional(rate / *peak) : std::nullopt});
  }
  return all;
}

Table conventions_table(const std::vector<CountedFlops>& all, double tokens) {
  Table table{{{"convention"}, {"FLOPs of a token", true}, {"FLOPs of a step", true}}, {}};
  const bool known = all.front().utilization.has_value();
  if (known) table.columns.push_back({"% of peak", true});
  table.columns.push_back({"counts"});
  table.columns.push_back({"source"});
  for (const CountedFlops& one : all) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {one.name, fmt::format("{:.4g}", one.flops / tokens), fmt::format("{:.4g}", one.flops)};
    if (known) row.push_back(format_number(100 * *one.utilization));
    row.insert(row.end(), {one.counts, one.source});
  }
  return table;
}

nlohmann::json conventions_json(const std::vector<CountedFlops>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CountedFlops& one : all)
    rows.push_back({{"convention", one.name},
                    {"counts", one.counts},
                    {"source", one.source},
                    {"flops", one.flops},
                    {"utilization", or_null(one.utilization)}});
  return rows;
}

Exit count_flops(const FlopsValues& values) {
  const RunSettings settings = values.run.settings();
  const auto target = target_of(settings);
  const TrainingRun run = training_run(settings, *target);
  catch_interrupts();
  Record record;
  // What is counted alone takes no memory; a step that is timed takes what there is.
  const bool timed = !values.step_time && !target->simulated();
  const auto unlimited = without_limit(*target);
  with_needed(run, *target, [&] {
    train(run, timed ? *target : *unlimited, record, [](int64_t, const std::string&) {});
  });
  const double seconds = values.step_time.value_or(median(record.samples(metric::step_time)));
  PeakRates peaks(*target);
  const std::optional<double> peak = peaks.data_sheet(run.config);
  const std::vector<CountedFlops> all =
      all_counted(run.config, record.flops->hardware, seconds, peak);
  const auto tokens = static_cast<double>(run.config.micro_batch * run.config.batch_microbatches() *
                                          run.config.model.sequence);
  const std::string time =
      values.step_time ? "given" : std::string(name_of(source_of(target->kind())));
  if (values.format == "json") {
    nlohmann::json said = about("flops", settings, run, *target);
    said["tokens"] = tokens;
    said["step_time"] = {{"seconds", seconds}, {"source", time}};
    said["peak_flops"] = or_null(peak);
    said["flops"] = conventions_json(all);
    fmt::print("{}\n", said.dump(2));
    return Exit::done;
  }
  if (values.format != "csv")
    fmt::print("{}{}", parameters_line(run.config.model), values.format == "markdown" ? "\n" : "");
  if (values.format == "table")
    fmt::print("a step of {} tokens: {} s, {}; peak: {}\n\n", format_number(tokens),
               format_number(seconds), time,
               peak ? fmt::format("{:.4g} FLOP/s, data sheets of all devices", *peak)
                    : peaks.why_no_data_sheet(run.config));
  fmt::print("{}", conventions_table(all, tokens).in(values.format));
  return Exit::done;
}

}  // namespace

void add_flops(CommandLine& line) {
  const auto values = std::make_shared<FlopsValues>();
  Flags flags = line.command("flops",
                             "FLOPs of a training step by each convention, and the MFU that each "
                             "makes of the same step time",
                             [values] { return count_flops(*values); });
  values->run.add_to(flags);
  flags.number("--step-time", values->step_time, 1e-9, 1e9,
               "Seconds of a step that you have measured; those of this run otherwise");
  flags.format(values->format, "How to print it on stdout");
}

}  // namespace frugal::harness
