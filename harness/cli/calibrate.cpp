#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/machine_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/progress.h"
#include "harness/place/environment.h"
#include "harness/report/commands/calibration_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct CalibrateValues {
  MachineFlags machine;
  std::string format = "table";
  bool held_out = false, sensitivity = false, published = false, check = false;
};

std::string command_of(const CalibrateValues& values) {
  return fmt::format("frugal calibrate --hardware {}{}{}{}", file_name(values.machine.name()),
                     values.held_out ? " --held-out" : "",
                     values.sensitivity ? " --sensitivity" : "",
                     values.published ? " --published" : "");
}

Exit calibrate(const CalibrateValues& values, const Artifacts& artifacts) {
  const FittedMachine fitted(values.machine.name(), artifacts);
  catch_interrupts();
  Progress progress(1 + (values.held_out ? fitted.held_out().size() : 0) +
                    (values.sensitivity ? machines_of_sensitivity(fitted) : 0) +
                    (values.published ? machines_of_published(fitted) : 0));
  const auto done = [&](const std::string& what) { progress.finished(what, "done"); };
  progress.working_on("fit");
  CalibrationReport report{.machine = fitted.machine().name,
                           .description = fitted.machine().description,
                           .refit = refit(fitted),
                           .held_out = {},
                           .sensitivity = {},
                           .published = {},
                           .violations = split_violations(fitted.machine().fit),
                           .command = command_of(values)};
  done("fit");
  if (values.held_out) {
    report.held_out = held_out_errors(fitted, done);
    for (std::string& violation : split_violations(*report.held_out))
      report.violations.push_back(std::move(violation));
  }
  if (values.sensitivity) report.sensitivity = sensitivity(fitted, usable_processors(), done);
  if (values.published) report.published = published(fitted, done);
  progress.finish();
  fmt::print("{}", values.format == "json" ? report.json().dump(2) + "\n" : report.text());
  if (!values.check || report.holds()) return Exit::done;
  fmt::print(stderr,
             "frugal: {} is not what fitting gives; take the refitted values, or leave "
             "what is held out out of fit.to\n",
             report.machine);
  return Exit::claim_failed;
}

}  // namespace

void add_calibrate(CommandLine& line) {
  const auto values = std::make_shared<CalibrateValues>();
  Flags flags = line.command(
      "calibrate", "Fit a virtual machine's fitted parameters again, and see how good they are",
      [values, &line] { return calibrate(*values, line.artifacts()); });
  values->machine.add_to(flags, "The machine; its file says what is fitted");
  flags.toggle("--held-out", values->held_out,
               "Also the errors of what the parameters were not fitted to");
  flags.toggle("--sensitivity", values->sensitivity,
               "Also what a tenth more or less of each parameter does; takes minutes");
  flags.toggle("--published", values->published,
               "Also what other published values of its numbers do, each fitted again");
  flags.toggle("--check", values->check,
               "Exit with status 1 when the file's values are not what fitting gives, or what is "
               "held out was fitted to");
  flags.choice("--format", values->format, {"table", "json"}, "How to print it on stdout");
}

}  // namespace frugal::harness
