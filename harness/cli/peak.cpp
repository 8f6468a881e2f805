#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/calibrate/own_machine.h"
#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/cli/machine_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/operation_times.h"
#include "harness/measure/timing.h"
#include "harness/place/environment.h"
#include "harness/place/target.h"
#include "harness/report/commands/peak_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct PeakValues {
  std::string on, hardware, format = "table", write, machine;
  std::optional<int> threads;  // all processors otherwise
  bool force = false;
};

/// Before anything is measured: a folder, or a place that cannot be written to, is no place.
void check_output(const PeakValues& values, const Target& target) {
  if (values.force && values.write.empty() && values.machine.empty())
    throw InputError("--force is given without --write FILE or --machine FILE, which it is about");
  if (!values.write.empty() && target.simulated())
    throw InputError(
        fmt::format("--write is given with --on {}: it writes what was measured, and a virtual "
                    "machine measures nothing; leave it out",
                    target.on()));
  if (!values.write.empty()) check_output_file("--write", values.write, values.force);
  if (values.machine.empty()) return;
  if (target.kind() != DeviceKind::cpu)
    throw InputError(
        fmt::format("--machine is given with --on {}; operations are timed one by one "
                    "on the cpu only: leave it out",
                    target.on()));
  if (values.machine == values.write)
    throw InputError(
        fmt::format("--write and --machine both name {}; they are two files: name "
                    "another one",
                    values.write));
  check_output_file("--machine", values.machine, values.force);
}

std::string command_of(const PeakValues& values, const Target& target) {
  std::string command = command_prefix(target.options(DType::f32));
  command += fmt::format("frugal peak --on {}", target.on());
  for (const auto& [flag, file] :
       {std::pair("--write", values.write), std::pair("--machine", values.machine)})
    if (!file.empty()) command += fmt::format(" {} {}", flag, file_name(file));
  if (target.threads()) command += fmt::format(" --threads {}", *target.threads());
  return command;
}

/// A machine that is called as its file.
void write_own_machine(const PeakValues& values, const Target& target, const Peaks& peaks) {
  OperationTimes operations(target.threads().value());
  time_interleaved({[&](bool keep) { operations.round(keep); }},
                   {.warm_up = 2, .samples = TimingPlan::minimum, .budget = 0});
  const std::string name = std::filesystem::path(values.machine).stem().string();
  const auto machine = own_machine(peaks, target, name, command_of(values, target),
                                   fit_operations(operations.samples()));
  write_file(values.machine, machine.dump(2) + "\n");
}

Exit peak(PeakValues values) {
  values.on = place_named(values.on, values.hardware);
  if (values.on.empty()) values.on = "cpu";
  check_threads(values.threads, values.on, device_kind(values.on) == DeviceKind::cpu);
  const auto place =
      make_target({.on = values.on, .threads = values.threads.value_or(usable_processors())});
  const Target& target = *place;
  check_output(values, target);
  catch_interrupts();
  const Peaks peaks = measure_peaks(target);
  if (!values.write.empty()) {
    const std::string name = std::filesystem::path(values.write).stem().string();
    const auto machine = measured_machine(peaks, target, name, command_of(values, target));
    write_file(values.write, machine.dump(2) + "\n");
  }
  if (!values.machine.empty()) write_own_machine(values, target, peaks);
  if (values.format == "json")
    fmt::print("{}\n", to_json(peaks, target).dump(2));
  else
    fmt::print("{}\n{}", target.device(), peak_table(peaks).text());
  return Exit::done;
}

}  // namespace

void add_peak(CommandLine& line) {
  const auto values = std::make_shared<PeakValues>();
  Flags flags =
      line.command("peak", "What this machine's matrix products, memory, launches and links reach",
                   [values] { return peak(*values); });
  flags.text("--on", values->on, "cpu|cuda|virtual:MACHINE", "Which device; the cpu otherwise");
  flags.text("--hardware", values->hardware, "NAME|FILE", "The same as --on virtual:NAME");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.choice("--format", values->format, {"table", "json"}, "How to print it");
  flags.text("--write", values->write, "FILE",
             "Also write it to this file, with where it comes from (docs/peak.md)");
  flags.text(
      "--machine", values->machine, "FILE",
      "Also time operations one by one, a minute or two, and write a machine of them for --on "
      "virtual:FILE; on cpu (docs/peak.md)");
  flags.toggle("--force", values->force, "Replace the files of --write and --machine");
}

}  // namespace frugal::harness
