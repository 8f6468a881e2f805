#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/report/commands/recompute_report.h"
#include "harness/report/measurement.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct RecomputeValues {
  RunFlags run{{Section::model, Section::length, Section::place, Section::layout, Section::memory,
                Section::training}};
  std::optional<int64_t> memory;
  std::string format = "table";
};

/// Recomputation is what is searched.
void refuse_recomputation(const RunSettings& settings) {
  for (const char* key : {"recompute", "recompute_modules", "recompute_group", "recompute_layers",
                          "offload", "offload_modules", "offload_layers"})
    if (settings.is_given(key))
      throw InputError(fmt::format(
          "{}: frugal recompute searches recomputation of inputs and modules kept on the device; "
          "leave it out, or use frugal measure",
          field_of(key).name()));
}

Exit recompute(const RecomputeValues& values) {
  const RunSettings settings = values.run.settings();
  refuse_recomputation(settings);
  const auto place = target_of(settings);
  if (!place->simulated())
    throw InputError(
        fmt::format("--on is {}; the search executes hundreds of steps on a machine without a "
                    "limit of memory: give --on virtual or virtual:MACHINE",
                    place->on()));
  const TrainingRun run = training_run(settings, *place);
  catch_interrupts();
  RecomputeReport report{.ways = executed_ways(run.config, run.train.optimizer, *place->machine()),
                         .memory = values.memory.value_or(place->memory_of_rank(run.config)),
                         .on = place->on(),
                         .device = place->device(),
                         .command = "frugal recompute" + command_flags(settings, run, *place)};
  if (values.memory)
    report.command += fmt::format(" --memory {}", byte_count().text(*values.memory));
  if (values.format == "json")
    fmt::print("{}\n", report.json().dump(2));
  else
    fmt::print("{}{}", values.format == "csv" ? "" : parameters_line(run.config.model) + "\n",
               report.table().in(values.format));
  if (fastest_within(report.ways, report.memory) != nullptr) return Exit::done;
  const auto least = std::ranges::min_element(report.ways, {}, &RecomputeWay::peak);
  TrainingRun leanest = run;
  leanest.config = least->run;
  fmt::print(stderr,
             "frugal: no recomputation fits: with {} a step {}; try more ranks, or a smaller "
             "microbatch\n",
             name_of(least->run.recompute),
             in_words(needed_by(leanest, *virtual_target(*place, report.memory)).value()));
  return Exit::out_of_memory;
}

}  // namespace

void add_recompute(CommandLine& line) {
  const auto values = std::make_shared<RecomputeValues>();
  Flags flags = line.command(
      "recompute",
      "The recomputation that costs the least time for a memory: every set of modules, of every "
      "number of layers, executed on a virtual machine",
      [values] { return recompute(*values); });
  values->run.add_to(flags);
  flags.bytes("--memory", values->memory,
              "Memory of each rank, such as 80GiB, instead of the machine's");
  flags.format(values->format, "How to print it on stdout");
}

}  // namespace frugal::harness
