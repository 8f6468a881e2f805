#include "harness/calibrate/own_machine.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/place/environment.h"
#include "harness/place/target.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

json parameter(const json& value, const char* unit, const std::string& source) {
  return {{"value", value}, {"unit", unit}, {"source", source}};
}

double peak_of(const Peaks& peaks, DType type) {
  for (const auto& rates : peaks.gemms)
    if (rates.front().type == type) return measured_peak(rates).value;
  return 0;
}

}  // namespace

json own_machine(const Peaks& peaks, const Target& target, const std::string& name,
                 const std::string& command, const MeasuredOperations& operations) {
  const json found = environment(target.kind());
  const std::string measured =
      fmt::format("measured at commit {} by: {}", found["build"]["commit"].dump(), command);
  const std::string within = "not measured; part of the operations' times";
  const std::string whole = measured + "; what was reached is the peak here";
  const double bandwidth = peaks.copy.value;
  const int64_t capacity = target.memory_of_rank({});
  const json device = {
      {"flops_bf16", parameter(peak_of(peaks, DType::bf16), "FLOP/s", measured)},
      {"flops_f32", parameter(peak_of(peaks, DType::f32), "FLOP/s", measured)},
      {"flops_f64", parameter(gemm_peak(DType::f64, target).value, "FLOP/s", measured)},
      {"memory_capacity", parameter(capacity, "B", "what the system could give at that time")},
      {"memory_bandwidth", parameter(bandwidth, "B/s", measured + "; a copy")},
      {"memory_fraction", parameter(1, "1", whole)},
      {"memory_latency", parameter(1e-9, "s", within)},
      {"l2_bandwidth", parameter(1e15, "B/s", within)},
      {"multiprocessors", parameter(target.threads().value(), "1", "kernel threads")},
      {"host_bandwidth", parameter(bandwidth, "B/s", "the device's memory is the host's")},
      {"host_fraction", parameter(1, "1", whole)},
      {"launch_overhead", parameter(1e-9, "s", within)},
      {"kernel_latency", parameter(peaks.launch.each.value, "s", measured)},
      {"gemm_fraction", parameter(1, "1", whole)},
      {"gemm_sustained", parameter(1, "1", whole)},
      {"attention_fraction", parameter(1, "1", whole)},
      {"tiles", parameter(json::array({{64, 64}}), "elements", within)}};
  const json network = {{"devices_per_node", parameter(1, "1", "one processor, without links")},
                        {"host_memory", parameter(capacity, "B", "the same memory")}};
  return {{"schema", "frugal.machine/1"},
          {"name", name},
          {"description", target.device()},
          {"calibration", "each operation as it was measured in small models"},
          {"device", device},
          {"network", network},
          {"operations", {{"source", measured}, {"forms", to_json(operations)}}}};
}

}  // namespace frugal::harness
