#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/progress.h"
#include "harness/place/environment.h"
#include "harness/report/commands/validation_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct ValidateValues {
  std::string on = "cpu", hardware, format = "table", junit, write_reference;
  std::vector<std::string> references;
  std::optional<int> threads;  // all processors otherwise
  std::optional<double> seconds;
  ValidationPlan plan;
  bool force = false;
};

/// Before anything is done: it takes a minute to find out otherwise.
void check_files(const ValidateValues& values) {
  const std::vector<FlagFile> outputs = {{"--junit", values.junit},
                                         {"--write-reference", values.write_reference}};
  std::vector<FlagFile> inputs = {{"--hardware", values.hardware}};
  for (const std::string& reference : values.references)
    inputs.push_back({"--reference", reference});
  check_distinct(outputs, inputs);
  if (values.force && values.junit.empty() && values.write_reference.empty())
    throw InputError(
        "--force is given without --junit FILE or --write-reference FILE, which it is about");
  for (const FlagFile& output : outputs)
    if (!output.path.empty()) check_output_file(output.flag, output.path, values.force);
}

std::unique_ptr<Target> place_of(const ValidateValues& values) {
  const DeviceKind kind = device_kind(values.on);
  if (kind == DeviceKind::simulated)
    throw InputError(fmt::format(
        "--on is {}: a virtual machine is as it is described; validate cpu or cuda", values.on));
  check_threads(values.threads, values.on, kind == DeviceKind::cpu);
  return make_target({.on = values.on,
                      .threads = values.threads.value_or(usable_processors()),
                      .hardware = values.hardware});
}

std::string command_of(const ValidateValues& values, const Target& target) {
  std::string command = command_prefix(target.options(DType::f32));
  command += fmt::format("frugal validate --on {}", target.on());
  if (values.plan.quick) command += " --quick";
  if (values.seconds) command += fmt::format(" --seconds {}", *values.seconds);
  for (const std::string& group : values.plan.groups) command += " --group " + group;
  if (!values.hardware.empty()) command += " --hardware " + file_name(values.hardware);
  for (const std::string& reference : values.references)
    command += " --reference " + file_name(reference);
  if (target.threads()) command += fmt::format(" --threads {}", *target.threads());
  return command;
}

Exit exit_of(const Validation& validation) {
  if (validation.computes_wrongly()) return Exit::wrong_numbers;
  return validation.passes() ? Exit::done : Exit::claim_failed;
}

/// What a reference cannot have: what others disturbed.
std::vector<std::string> too_disturbed(const std::vector<Series>& all) {
  std::vector<std::string> keys;
  for (const Series& series : all)
    if (!series.judgeable()) keys.push_back(series.key);
  return keys;
}

void write_reference(const std::string& path, const Validation& validation, const Target& target,
                     const std::string& command) {
  const std::vector<std::string> disturbed = too_disturbed(validation.series);
  if (disturbed.size() == validation.series.size()) {
    fmt::print(stderr, "{} is not written: {}\n", path,
               disturbed.empty() ? "nothing was timed" : "others disturbed all that was timed");
    return;
  }
  write_file(path, reference_json(validation.series, target, command).dump(2) + "\n");
  if (!disturbed.empty())
    fmt::print(stderr, "{} lacks {}: too few executions were left alone by others\n", path,
               fmt::join(disturbed, ", "));
}

/// Of a machine that is not right there is no reference; one of which nothing could be judged may
/// be right: that is what the first reference is made of.
void write_results(const ValidateValues& values, const Validation& validation, const Target& target,
                   const std::string& command) {
  if (!values.junit.empty()) write_file(values.junit, validation_junit(validation));
  if (values.write_reference.empty()) return;
  if (validation.count(Finding::Outcome::failed) == 0)
    write_reference(values.write_reference, validation, target, command);
  else
    fmt::print(stderr, "{} is not written: not all checks passed\n", values.write_reference);
}

Exit validate_place(ValidateValues values) {
  check_files(values);
  (void)chosen_groups(values.plan.groups);
  std::vector<ReferenceMachine> references;
  for (const std::string& path : values.references) references.push_back(read_reference(path));
  const auto target = place_of(values);
  const Expectations expectations(*target, references);
  values.plan.seconds = values.seconds.value_or(0);
  catch_interrupts();
  Progress progress(0);
  const Validation validation = validate(*target, expectations, values.plan,
                                         [&](const std::string& doing) { progress.note(doing); });
  progress.finish();
  const std::string command = command_of(values, *target);
  if (values.format == "json")
    fmt::print("{}\n", to_json(validation, *target, command).dump(2));
  else
    fmt::print("{}", validation_page(validation, target->device(), values.format));
  write_results(values, validation, *target, command);
  return exit_of(validation);
}

}  // namespace

void add_validate(CommandLine& line) {
  const auto values = std::make_shared<ValidateValues>();
  Flags flags = line.command("validate",
                             "Is this machine right, and as fast as it should be? First whether it "
                             "computes rightly, then how fast (docs/validate.md)",
                             [values] { return validate_place(*values); });
  flags.text("--on", values->on, "cpu|cuda", "Which device");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.toggle("--quick", values->plan.quick, "Within a minute: fewer sizes, a shorter look");
  flags.number("--seconds", values->seconds, 1, 86400,
               "How long it times by turns; 80 otherwise, 20 to 38 with --quick");
  flags.texts("--group", values->plan.groups, "NAME",
              "Only this group of checks, as often as it is given; `frugal validate` names them");
  flags.texts(
      "--reference", values->references, "FILE",
      "How fast it should be: what --write-reference wrote on such a machine, or frugal peak");
  flags.text(
      "--hardware", values->hardware, "MACHINE",
      "Its data sheet, which also predicts layers and steps: a machine or a file; a GPU's is "
      "found by its name");
  flags.text("--write-reference", values->write_reference, "FILE",
             "Where all passes, keep what was measured, for --reference");
  flags.choice("--format", values->format, {"table", "json", "markdown"}, "How to print it");
  flags.text("--junit", values->junit, "FILE", "Also write the checks as JUnit XML");
  flags.toggle("--force", values->force, "Replace the files of --junit and --write-reference");
}

}  // namespace frugal::harness
