#include "harness/record/gpu_load.h"

#include <nlohmann/json.hpp>

#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

json to_json(const std::optional<GpuLoad::Range>& range) {
  if (!range) return nullptr;
  return {{"mean", range->mean}, {"low", range->low}, {"high", range->high}};
}

std::optional<GpuLoad::Range> range_from_json(const JsonObject& object, std::string_view key) {
  if (object.at(key).is_null()) return std::nullopt;
  const JsonObject range = object.object(key);
  return GpuLoad::Range{range.number("mean", 0), range.number("low", 0), range.number("high", 0)};
}

}  // namespace

std::optional<double> GpuLoads::mean_clock() const {
  double sum = 0;
  for (const GpuLoad& gpu : gpus) {
    if (!gpu.sm_clock) return std::nullopt;
    sum += gpu.sm_clock->mean;
  }
  if (gpus.empty()) return std::nullopt;
  return sum / static_cast<double>(gpus.size());
}

json to_json(const GpuLoads& loads) {
  if (!loads.why_unknown.empty()) return {{"unknown", loads.why_unknown}};
  json gpus = json::array();
  for (const GpuLoad& load : loads.gpus)
    gpus.push_back({{"samples", load.samples},
                    {"sm_clock_mhz", to_json(load.sm_clock)},
                    {"memory_clock_mhz", to_json(load.memory_clock)},
                    {"power_watts", to_json(load.power)},
                    {"temperature_celsius", to_json(load.temperature)},
                    {"throttled", load.throttled}});
  return {{"gpus", gpus}};
}

GpuLoads gpu_loads_from_json(const JsonObject& object) {
  GpuLoads loads;
  if (object.has("unknown")) {
    loads.why_unknown = object.require<std::string>("unknown");
    return loads;
  }
  for (const JsonObject& gpu : object.objects("gpus")) {
    GpuLoad load{.samples = static_cast<int>(gpu.integer("samples", 0)),
                 .sm_clock = range_from_json(gpu, "sm_clock_mhz"),
                 .memory_clock = range_from_json(gpu, "memory_clock_mhz"),
                 .power = range_from_json(gpu, "power_watts"),
                 .temperature = range_from_json(gpu, "temperature_celsius")};
    const JsonObject throttled = gpu.object("throttled");
    for (const auto& [reason, part] : gpu.at("throttled").items())
      load.throttled[reason] = throttled.number(reason, 0);
    loads.gpus.push_back(std::move(load));
  }
  return loads;
}

}  // namespace frugal::harness
