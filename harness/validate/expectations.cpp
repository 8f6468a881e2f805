#include "harness/validate/expectations.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "harness/place/environment.h"
#include "harness/report/commands/peak_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/embedded.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Machines that were measured, whose records the program has in it (cmake/Libraries.cmake).
constexpr std::array known_machines = {"results/nvidia-h100-80gb/peak.json"};

ReferenceMachine read_peak(const JsonObject& peak, std::string source) {
  ReferenceMachine machine{std::move(source), peak.require<std::string>("device"), {}};
  const JsonObject best = peak.object("measured_peak");
  for (const std::string& type : best.keys())
    machine.values["flops_" + type] = best.object(type).number("flops_per_second", 0);
  machine.values["memory_bandwidth"] = peak.object("copy").number("bytes_per_second", 0);
  machine.values["operation_time"] = peak.object("launch").object("each").number("seconds", 0);
  return machine;
}

ReferenceMachine read_validation(const JsonObject& file, std::string source) {
  ReferenceMachine machine{std::move(source), file.require<std::string>("device"), {}};
  const JsonObject values = file.object("values");
  for (const std::string& key : values.keys())
    machine.values[key] = values.object(key).number("value", 0);
  return machine;
}

ReferenceMachine read_machine(std::string_view text, const std::string& path,
                              const std::string& source) {
  const json file = parse_json(text, path);
  const JsonObject root(file, path);
  const auto schema = root.require<std::string>("schema");
  if (schema == ReferenceMachine::schema) return read_validation(root, source);
  if (schema == Peaks::schema) return read_peak(root, source);
  if (schema == "frugal.measured-machine/1") return read_peak(root.object("samples"), source);
  root.fail("schema", fmt::format("is \"{}\"; a reference is {}, written by frugal validate "
                                  "--write-reference, or a file of frugal peak --write",
                                  schema, ReferenceMachine::schema));
}

/// What the machine's file says that is reached, not its peaks alone.
std::map<std::string, double> values_of_sheet(const Machine& machine) {
  std::map<std::string, double> values = {
      {"memory_bandwidth", machine.memory_bandwidth * machine.memory_fraction},
      {"collective/all-reduce", machine.link_bandwidth * machine.link_fraction}};
  for (const DType type : {DType::f32, DType::bf16})
    values[fmt::format("flops_{}", name_of(type))] =
        machine.peak_flops(type) * machine.gemm_fraction;
  std::erase_if(values, [](const auto& value) { return value.second <= 0; });
  return values;
}

}  // namespace

ReferenceMachine read_reference(const std::string& path) {
  return read_machine(read_text(path), path, "the reference " + file_name(path));
}

json reference_json(const std::vector<Series>& seen, const Target& target,
                    const std::string& command) {
  json values = json::object();
  for (const Series& series : seen) {
    if (!series.judgeable()) continue;
    const Estimate value = series.value();
    values[series.key] = {{"what", series.what},
                          {"unit", series.unit},
                          {"value", value.value},
                          {"interval", {value.interval->low, value.interval->high}}};
  }
  const json found = environment(target.kind());
  return {{"schema", ReferenceMachine::schema},
          {"on", target.on()},
          {"device", target.device()},
          {"values", values},
          {"provenance",
           {{"command", command},
            {"commit", found["build"]["commit"]},
            {"date", utc_now()},
            {"environment", found}}}};
}

Expectations::Expectations(const Target& target, const std::vector<ReferenceMachine>& references) {
  const auto add = [&](const std::string& source, const std::map<std::string, double>& values) {
    for (const auto& [key, value] : values) known_.insert({key, {value, source}});
  };
  for (const ReferenceMachine& reference : references) {
    if (reference.device != target.device())
      throw InputError(fmt::format(
          "--reference: {} is of \"{}\" and this is \"{}\"; give one of the same device, or make "
          "one with --write-reference FILE",
          reference.source, reference.device, target.device()));
    add(reference.source, reference.values);
  }
  for (const char* path : known_machines) {
    const ReferenceMachine machine =
        read_machine(embedded_file(path).value(), path, fmt::format("the record {}", path));
    if (machine.device == target.device()) add(machine.source, machine.values);
  }
  if (target.machine() && !target.simulated())
    add("the data sheet " + target.machine()->name, values_of_sheet(*target.machine()));
}

std::vector<Expectation> Expectations::of(const std::string& key) const {
  std::vector<Expectation> found;
  for (auto [at, end] = known_.equal_range(key); at != end; ++at) found.push_back(at->second);
  return found;
}

std::string Expectations::why_none() const {
  return known_.empty() ? "no data sheet, record or reference of this device is known"
                        : "no data sheet, record or reference of this device has it";
}

}  // namespace frugal::harness
