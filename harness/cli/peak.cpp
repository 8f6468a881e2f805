#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/files.h"
#include "harness/cli/program.h"
#include "harness/environment.h"
#include "harness/interrupt.h"
#include "harness/peak_report.h"
#include "harness/target.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

struct Values {
  std::string on = "cpu", format = "table", write;
  std::optional<int> threads;  // all processors otherwise
  bool force = false;
};

/// Before anything is measured: a folder, or a place that cannot be written to, is no place.
void check_output(const Values& values) {
  if (values.write.empty()) {
    if (values.force) throw InputError("--force is given without --write FILE, which it is about");
    return;
  }
  check_output_file("--write", values.write, values.force);
}

std::string command_of(const Values& values, const Target& target) {
  std::string command = command_prefix(target.options(DType::f32));
  command += fmt::format("frugal peak --on {} --write {}", target.on(), file_name(values.write));
  if (target.kind() == DeviceKind::cpu) command += fmt::format(" --threads {}", target.threads());
  return command;
}

Exit peak(const Values& values) {
  check_threads(values.threads, values.on, device_kind(values.on) == DeviceKind::cpu);
  const Target target(values.on, values.threads.value_or(usable_processors()));
  check_output(values);
  catch_interrupts();
  const Peaks peaks = measure_peaks(target);
  if (!values.write.empty()) {
    const std::string name = std::filesystem::path(values.write).stem().string();
    const auto machine = measured_machine(peaks, target, name, command_of(values, target));
    write_file(values.write, machine.dump(2) + "\n");
  }
  if (values.format == "json")
    fmt::print("{}\n", to_json(peaks, target).dump(2));
  else
    fmt::print("{}\n{}", target.device(), peak_table(peaks).text());
  return Exit::done;
}

}  // namespace

void add_peak(Program& program) {
  const auto values = std::make_shared<Values>();
  Flags flags = program.command(
      "peak", "What this machine's matrix products, memory, launches and links reach",
      [values] { return peak(*values); });
  flags.choice("--on", values->on, {"cpu", "cuda"}, "Which device");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.choice("--format", values->format, {"table", "json"}, "How to print it");
  flags.text("--write", values->write, "FILE",
             "Also write it to this file, with where it comes from (docs/peak.md)");
  flags.toggle("--force", values->force, "Replace the file of --write");
}

}  // namespace frugal
