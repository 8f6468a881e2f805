#include "harness/report/commands/work_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/place/device_kind.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Without a decimal point where it is whole.
json number(double value) {
  constexpr double exact = 0x1p53;
  if (value == std::floor(value) && std::abs(value) < exact) return static_cast<int64_t>(value);
  return value;
}

json to_json(const HostCalls& calls, DeviceKind kind) {
  if (kind == DeviceKind::cpu) return nullptr;
  const auto on_gpu = [&](double value) {
    return kind == DeviceKind::cuda ? number(value) : json(nullptr);
  };
  return {{"launches", number(calls.launches)},
          {"library_calls", on_gpu(calls.library_calls)},
          {"copies", on_gpu(calls.copies)},
          {"synchronisations", on_gpu(calls.synchronisations)}};
}

json to_json(const LeastBytes& least) {
  return {{"weights", number(least.weights)},     {"gradients", number(least.gradients)},
          {"optimizer", number(least.optimizer)}, {"kept", number(least.kept)},
          {"inputs", number(least.inputs)},       {"total", number(least.total())}};
}

HostCalls calls_from_json(const JsonObject& object) {
  const auto count = [&](std::string_view key) {
    return object.at(key).is_null() ? 0 : object.number(key, 0);
  };
  return {count("launches"), count("library_calls"), count("copies"), count("synchronisations")};
}

}  // namespace

json to_json(const StepWork& work, const std::string& on) {
  json operations = json::object();
  for (size_t i = 0; i < DeviceWork::kinds; ++i) {
    const DeviceWork::Operations& all = work.done.operations.at(i);
    if (all.count > 0)
      operations[std::string(DeviceWork::names.at(i))] = {{"count", number(all.count)},
                                                          {"bytes", number(all.cost.bytes)},
                                                          {"flops", number(all.cost.flops)}};
  }
  return {{"unit", "bytes"},
          {"stage", work.stage},
          {"operations", operations},
          {"bytes", number(work.done.total().cost.bytes)},
          {"calls", to_json(work.done.calls, device_kind(on))},
          {"least", to_json(work.least)}};
}

StepWork step_work_from_json(const JsonObject& object) {
  StepWork work;
  work.stage = static_cast<int>(object.integer("stage", 0, 1 << 20));
  const JsonObject operations = object.object("operations");
  for (const std::string& name : operations.keys()) {
    const auto found = std::find(DeviceWork::names.begin(), DeviceWork::names.end(), name);
    if (found == DeviceWork::names.end())
      operations.fail(name, "is no operation that this program knows");
    const JsonObject all = operations.object(name);
    if (all.number("count", 0) == 0)
      all.fail("count", "is 0; an operation of which there was none is left out");
    work.done.operations.at(static_cast<size_t>(found - DeviceWork::names.begin())) = {
        all.number("count", 0), {all.number("flops", 0), all.number("bytes", 0)}};
  }
  if (!object.at("calls").is_null()) work.done.calls = calls_from_json(object.object("calls"));
  const JsonObject least = object.object("least");
  work.least = {least.number("weights", 0), least.number("gradients", 0),
                least.number("optimizer", 0), least.number("kept", 0), least.number("inputs", 0)};
  return work;
}

Table operations_table(const StepWork& work) {
  Table table{{{"operation"}, {"count", true}, {"GB", true}, {"TFLOP", true}}, {}};
  std::vector<size_t> order;
  for (size_t i = 0; i < DeviceWork::kinds; ++i)
    if (work.done.operations.at(i).count > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return work.done.operations.at(a).cost.bytes > work.done.operations.at(b).cost.bytes;
  });
  for (const size_t i : order) {
    const DeviceWork::Operations& all = work.done.operations.at(i);
    table.rows.push_back({std::string(DeviceWork::names.at(i)), format_number(all.count),
                          fmt::format("{:.4g}", all.cost.bytes / 1e9),
                          fmt::format("{:.4g}", all.cost.flops / 1e12)});
  }
  return table;
}

}  // namespace frugal::harness
