#include "harness/report/commands/peak_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/place/environment.h"
#include "harness/place/target.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

constexpr const char* machine_schema = "frugal.measured-machine/1";

/// [low, high]; null on a virtual machine, whose clock has no noise.
json interval_json(const Interval& interval, bool simulated = false) {
  return simulated ? json(nullptr) : json{interval.low, interval.high};
}

json to_json(const GemmRate& rate, const Peaks& peaks) {
  const auto [m, n, k] = rate.shape;
  return {{"type", type_label(rate.type, peaks.tf32)},
          {"size", rate.shape.square() ? json(m) : json(nullptr)},
          {"m", m},
          {"n", n},
          {"k", k},
          {"flops_per_second", rate.value},
          {"interval", interval_json(rate.interval, peaks.simulated)},
          {"repetitions", rate.repetitions},
          {"seconds", rate.seconds}};
}

std::string_view result_label(const LinearRate& rate, const Peaks& peaks) {
  if (!rate.product.wide) return type_label(rate.type, peaks.tf32);
  return rate.product.accumulates ? "added to float32" : "float32";
}

json to_json(const LinearRate& rate, const Peaks& peaks) {
  const Product& p = rate.product;
  return {{"product", p.name},
          {"type", type_label(rate.type, peaks.tf32)},
          {"result", result_label(rate, peaks)},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"flops_per_second", rate.value},
          {"interval", interval_json(rate.interval, peaks.simulated)},
          {"repetitions", rate.repetitions},
          {"seconds", rate.seconds}};
}

json to_json(const CollectiveRate& rate) {
  return {{"collective", rate.name},
          {"ranks", rate.ranks},
          {"bytes", rate.bytes},
          {"factor", rate.factor},
          {"bus_bytes_per_second", rate.value},
          {"interval", interval_json(rate.interval)},
          {"repetitions", rate.repetitions},
          {"seconds", rate.seconds}};
}

json to_json(const Estimate& estimate, bool simulated) {
  return {{"seconds", estimate.value},
          {"interval", interval_json(estimate.interval.value(), simulated)},
          {"samples", estimate.samples}};
}

std::string size_text(const GemmShape& shape) {
  return shape.square() ? std::to_string(shape.m)
                        : fmt::format("{} x {} x {}", shape.m, shape.n, shape.k);
}

/// A number as hardware/ has it, with its interval.
json parameter(double value, const Interval& interval, const char* unit, std::string source) {
  return {{"value", value},
          {"interval", interval_json(interval)},
          {"unit", unit},
          {"source", std::move(source)}};
}

json measured_parameters(const Peaks& peaks) {
  json measured = json::object();
  for (const auto& rates : peaks.gemms) {
    const GemmRate& best = measured_peak(rates);
    measured[fmt::format("flops_{}", type_label(best.type, peaks.tf32))] =
        parameter(best.value, best.interval, "FLOP/s",
                  fmt::format("best median of {} matrix products, m x n x k {} x {} x {}",
                              rates.size(), best.shape.m, best.shape.n, best.shape.k));
  }
  measured["memory_bandwidth"] =
      parameter(peaks.copy.value, peaks.copy.interval, "B/s",
                fmt::format("copy of {} bytes to as many, read and written", peaks.copy.bytes / 2));
  measured["launch_overhead"] =
      parameter(peaks.launch.issue.value, peaks.launch.issue.interval.value(), "s",
                "time of the host to issue one of many small operations in a row");
  measured["operation_time"] =
      parameter(peaks.launch.each.value, peaks.launch.each.interval.value(), "s",
                "time of the device from one small operation to the next, of many in a row");
  if (peaks.collectives.empty()) return measured;
  const CollectiveRate* best = &peaks.collectives.front();
  for (const CollectiveRate& rate : peaks.collectives)
    if (rate.value > best->value) best = &rate;
  measured["link_bandwidth"] = parameter(best->value, best->interval, "B/s",
                                         fmt::format("bus bandwidth of {} of {} bytes by {} ranks",
                                                     best->name, best->bytes, best->ranks));
  return measured;
}

/// What the machine's own file says, beside what was measured; null where there is none.
json data_sheet(const std::optional<Machine>& machine) {
  if (!machine) return nullptr;
  json sheet = json::object();
  for (const Machine::Parameter& p : machine->parameters)
    sheet[p.key] = {{"value", p.value}, {"unit", p.unit}, {"source", p.source}};
  return {{"machine", machine->name}, {"parameters", sheet}};
}

json to_json(const LaunchTime& launch, const Peaks& peaks) {
  return {{"operations", LaunchTime::operations},
          {"each", to_json(launch.each, peaks.simulated)},
          {"issue", to_json(launch.issue, peaks.simulated)}};
}

/// "virtual peak" or "measured peak".
std::string peak_name(const Peaks& peaks) {
  return peaks.simulated ? "virtual peak" : "measured peak";
}

std::string interval_text(const Interval& interval, double unit, const Peaks& peaks) {
  return peaks.simulated ? "" : format_interval(interval, unit);
}

}  // namespace

std::string_view type_label(DType type, bool tf32) {
  return tf32 && type == DType::f32 ? "tf32" : name_of(type);
}

Peaks measure_peaks(const Target& target) {
  Peaks peaks;
  peaks.simulated = target.simulated();
  peaks.tf32 = target.tf32(DType::f32);
  for (const DType type : {DType::f32, DType::bf16})
    peaks.gemms.push_back(gemm_rates(type, target));
  for (const DType type : {DType::f32, DType::bf16})
    for (const LinearRate& rate : linear_rates(type, target)) peaks.linears.push_back(rate);
  peaks.copy = copy_rate(target);
  peaks.launch = launch_time(target);
  peaks.product_launch = product_launch_time(target);
  const int gpu_count = target.kind() == DeviceKind::cuda ? static_cast<int>(gpus().size()) : 0;
  if (gpu_count < 2) {
    peaks.why_no_collectives = "collectives are measured between GPUs, of which there are not two";
    return peaks;
  }
  try {
    peaks.collectives = collective_rates(target, gpu_count);
  } catch (const InputError& error) {
    peaks.why_no_collectives = error.what();
  }
  return peaks;
}

json to_json(const Peaks& peaks, const Target& target) {
  json gemms = json::array(), best = json::object(), linears = json::array(),
       collectives = json::array();
  for (const auto& rates : peaks.gemms) {
    for (const GemmRate& rate : rates) gemms.push_back(to_json(rate, peaks));
    best[std::string(type_label(rates.front().type, peaks.tf32))] =
        to_json(measured_peak(rates), peaks);
  }
  for (const LinearRate& rate : peaks.linears) linears.push_back(to_json(rate, peaks));
  for (const CollectiveRate& rate : peaks.collectives) collectives.push_back(to_json(rate));
  return {{"schema", Peaks::schema},
          {"on", target.on()},
          {"device", target.device()},
          {"source", name_of(target.source())},
          {"float32_products", peaks.tf32 ? "tf32" : "float32"},
          {"options", target.options(DType::f32)},
          {"threads", target.threads() ? json(*target.threads()) : json(nullptr)},
          {"gemm", gemms},
          {"linear", linears},
          {peaks.simulated ? "virtual_peak" : "measured_peak", best},
          {"copy",
           {{"bytes", peaks.copy.bytes},
            {"bytes_per_second", peaks.copy.value},
            {"interval", interval_json(peaks.copy.interval, peaks.simulated)},
            {"repetitions", peaks.copy.repetitions},
            {"seconds", peaks.copy.seconds}}},
          {"launch", to_json(peaks.launch, peaks)},
          {"product_launch", to_json(peaks.product_launch, peaks)},
          {"collectives", collectives},
          {"why_no_collectives", peaks.why_no_collectives},
          {"environment", environment(target.kind())}};
}

Table peak_table(const Peaks& peaks) {
  Table table{{{"what"},
               {"size", true},
               {peaks.simulated ? "rate" : "median rate", true},
               {"interval", true},
               {"unit"}},
              {}};
  const auto add = [&](const std::string& what, const std::string& size, const Rate& rate,
                       const char* unit) {
    table.rows.push_back({what, size, format_number(rate.value / 1e9),
                          interval_text(rate.interval, 1e9, peaks), unit});
  };
  const auto add_gemm = [&](const std::string& what, const GemmRate& rate) {
    add(fmt::format("{} {}", what, type_label(rate.type, peaks.tf32)), size_text(rate.shape), rate,
        "GFLOP/s");
  };
  for (const auto& rates : peaks.gemms) {
    for (const GemmRate& rate : rates) add_gemm("gemm", rate);
    add_gemm(peak_name(peaks), measured_peak(rates));
  }
  for (const LinearRate& rate : peaks.linears) {
    const Product& p = rate.product;
    add(fmt::format("{} {}", p.name, type_label(rate.type, peaks.tf32)),
        fmt::format("{} x {} x {}", p.m, p.n, p.k), rate, "GFLOP/s");
  }
  add("copy", fmt::format("{} MiB", peaks.copy.bytes >> 20), peaks.copy, "GB/s");
  for (const CollectiveRate& rate : peaks.collectives)
    add(fmt::format("{}, {} ranks, bus", rate.name, rate.ranks),
        fmt::format("{} KiB", rate.bytes >> 10), rate, "GB/s");
  const std::pair<const char*, const Estimate*> times[] = {
      {"small operation", &peaks.launch.each},
      {"issuing one", &peaks.launch.issue},
      {"small product", &peaks.product_launch.each},
      {"issuing a product", &peaks.product_launch.issue}};
  for (const auto& [what, time] : times)
    table.rows.push_back({what, "", format_number(1e6 * time->value),
                          interval_text(*time->interval, 1e-6, peaks), "us"});
  return table;
}

json measured_machine(const Peaks& peaks, const Target& target, const std::string& name,
                      const std::string& command) {
  const json found = environment(target.kind());
  json details = to_json(peaks, target);
  details.erase("environment");
  return {{"schema", machine_schema},
          {"name", name},
          {"description", target.device()},
          {"measured", measured_parameters(peaks)},
          {"data_sheet", data_sheet(target.machine())},
          {"samples", details},
          {"provenance",
           {{"command", command},
            {"commit", found["build"]["commit"]},
            {"date", utc_now()},
            {"environment", found}}}};
}

}  // namespace frugal::harness
