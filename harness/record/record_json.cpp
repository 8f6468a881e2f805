#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "harness/measure/flops.h"
#include "harness/record/or_null.h"
#include "harness/record/record.h"
#include "harness/report/commands/work_report.h"
#include "harness/settings/config_json.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// The enumerator that a key names. Throws InputError that lists those there are.
template <Enumeration E>
E named(const JsonObject& object, std::string_view key) {
  const auto name = object.require<std::string>(key);
  if (const auto value = from_name<E>(name)) return *value;
  const Names names = names_of(E());
  object.fail(key, fmt::format("is \"{}\"; it must be one of {}", name, fmt::join(names, ", ")));
}

using nlohmann::json;

json to_json(const Metric& metric) {
  const Bootstrap bootstrap;
  const Estimate estimate = median_estimate(metric.samples, bootstrap);
  json interval = nullptr;
  if (estimate.interval)
    interval = {
        {"low", estimate.interval->low},    {"high", estimate.interval->high},
        {"level", bootstrap.level},         {"method", "percentile bootstrap of the median"},
        {"resamples", bootstrap.resamples}, {"seed", bootstrap.seed}};
  return {{"unit", metric.unit},
          {"samples", metric.samples},
          {"median", estimate.value},
          {"interval", interval}};
}

json to_json(const BytesPerKind& bytes) {
  json object = json::object();
  for (int i = 0; i < kind_count; ++i)
    object[std::string(name_of(static_cast<Kind>(i)))] = bytes[static_cast<size_t>(i)];
  return object;
}

BytesPerKind bytes_from_json(const JsonObject& object) {
  BytesPerKind bytes{};
  for (int i = 0; i < kind_count; ++i)
    bytes[static_cast<size_t>(i)] = object.integer(name_of(static_cast<Kind>(i)), 0);
  return bytes;
}

json to_json(const HeldPerPart& held) {
  json object = json::object();
  for (int i = 0; i < part_count; ++i) {
    const auto& [tensors, bytes] = held[static_cast<size_t>(i)];
    object[std::string(name_of(static_cast<Part>(i)))] = {{"tensors", tensors}, {"bytes", bytes}};
  }
  return object;
}

HeldPerPart held_from_json(const JsonObject& object) {
  HeldPerPart held{};
  for (int i = 0; i < part_count; ++i) {
    const JsonObject part = object.object(name_of(static_cast<Part>(i)));
    held[static_cast<size_t>(i)] = {part.integer("tensors", 0), part.integer("bytes", 0)};
  }
  return held;
}

json to_json(const Memory& memory) {
  json stages = json::array();
  for (const StageMemory& stage : memory.stages)
    stages.push_back({{"at_peak", to_json(stage.at_peak)},
                      {"peak", stage.peak},
                      {"peak_per_kind", to_json(stage.peak_per_kind)},
                      {"peak_in_layers", stage.peak_in_layers},
                      {"held", to_json(stage.held)},
                      {"kept", to_json(stage.kept)}});
  return {{"stages", stages},
          {"unit", "bytes"},
          {"host_peak", memory.host_peak},
          {"after_forward", memory.after_forward ? to_json(*memory.after_forward) : json(nullptr)},
          {"peak", to_json(memory.peak)},
          {"peak_total", memory.peak_total},
          {"reserved", or_null(memory.reserved)}};
}

/// Null for a virtual machine, which models everything.
json communication(const Record& record) {
  if (!record.modelled)
    return record.source == Source::simulated ? json(nullptr) : json{{"kind", "real"}};
  return {{"kind", "modelled"},
          {"machine", record.modelled->machine},
          {"machine_hash", record.modelled->hash},
          {"left_out", ModelledCommunication::left_out}};
}

std::optional<ModelledCommunication> communication_from_json(const JsonObject& object) {
  // Records of the first programs do not say: all that they had was real or virtual.
  if (!object.has("communication") || object.at("communication").is_null()) return std::nullopt;
  const JsonObject communication = object.object("communication");
  const auto kind = communication.require<std::string>("kind");
  if (kind == "real") return std::nullopt;
  if (kind != "modelled")
    communication.fail("kind", fmt::format("is \"{}\"; it must be real or modelled", kind));
  return ModelledCommunication{communication.require<std::string>("machine"),
                               communication.require<std::string>("machine_hash")};
}

json to_json(const Flops& flops) {
  return {{"model", {{"value", flops.model}, {"formula", flops.model_formula}}},
          {"hardware", {{"value", flops.hardware}, {"formula", flops.hardware_formula}}},
          {"hardware_as_printed", flops.hardware_eq8
                                      ? json{{"value", *flops.hardware_eq8}, {"formula", eq8_id}}
                                      : json(nullptr)}};
}

json to_json(const Fraction& fraction) {
  return {{"value", or_null(fraction.value)}, {"reason", fraction.reason}};
}

constexpr const char* at_mean_clock = "at_mean_clock";

json to_json(const Utilization& u) {
  json all = {
      {"peak_flops",
       {{"data_sheet", or_null(u.data_sheet_peak)}, {"measured", or_null(u.measured_peak)}}},
      {"mfu", {{"data_sheet", to_json(u.mfu_data_sheet)}, {"measured", to_json(u.mfu_measured)}}},
      {"hfu", {{"data_sheet", to_json(u.hfu_data_sheet)}, {"measured", to_json(u.hfu_measured)}}}};
  if (u.at_clock) {
    all["peak_flops"][at_mean_clock] = or_null(u.at_clock->peak);
    all["mfu"][at_mean_clock] = to_json(u.at_clock->mfu);
    all["hfu"][at_mean_clock] = to_json(u.at_clock->hfu);
  }
  return all;
}

Flops flops_from_json(const JsonObject& object) {
  const JsonObject model = object.object("model"), hardware = object.object("hardware");
  Flops flops{model.number("value", 0),
              model.require<std::string>("formula"),
              hardware.number("value", 0),
              hardware.require<std::string>("formula"),
              {}};
  if (!object.at("hardware_as_printed").is_null())
    flops.hardware_eq8 = object.object("hardware_as_printed").number("value", 0);
  return flops;
}

std::optional<double> optional_number(const JsonObject& object, std::string_view key) {
  if (object.at(key).is_null()) return std::nullopt;
  return object.number(key, 0);
}

Fraction fraction_from_json(const JsonObject& object) {
  return {optional_number(object, "value"), object.require<std::string>("reason")};
}

Utilization utilization_from_json(const JsonObject& object) {
  const JsonObject peak = object.object("peak_flops"), mfu = object.object("mfu"),
                   hfu = object.object("hfu");
  Utilization u{
      optional_number(peak, "data_sheet"),          optional_number(peak, "measured"),
      fraction_from_json(mfu.object("data_sheet")), fraction_from_json(mfu.object("measured")),
      fraction_from_json(hfu.object("data_sheet")), fraction_from_json(hfu.object("measured"))};
  if (peak.has(at_mean_clock))
    u.at_clock = {optional_number(peak, at_mean_clock),
                  fraction_from_json(mfu.object(at_mean_clock)),
                  fraction_from_json(hfu.object(at_mean_clock))};
  return u;
}

std::map<std::string, std::string> texts(const JsonObject& object, std::string_view key) {
  const JsonObject texts = object.object(key);
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : object.at(key).items())
    values[name] = texts.require<std::string>(name);
  return values;
}

int64_t scale_from_json(const JsonObject& object) {
  const auto name = object.require<std::string>("scale");
  if (const auto scale = parse_scale(name)) return *scale;
  object.fail("scale", fmt::format("is \"{}\"; it must be \"1\" or \"1/k\"", name));
}

StageMemory stage_from_json(const JsonObject& object) {
  StageMemory stage{.at_peak = bytes_from_json(object.object("at_peak")),
                    .peak = object.integer("peak", 0)};
  if (!object.has("peak_per_kind")) return stage;
  stage.peak_per_kind = bytes_from_json(object.object("peak_per_kind"));
  stage.peak_in_layers = object.integer("peak_in_layers", 0);
  if (object.has("held")) stage.held = bytes_from_json(object.object("held"));
  if (object.has("kept")) stage.kept = held_from_json(object.object("kept"));
  return stage;
}

Memory memory_from_json(const JsonObject& object) {
  Memory memory;
  if (!object.at("after_forward").is_null())
    memory.after_forward = bytes_from_json(object.object("after_forward"));
  memory.peak = bytes_from_json(object.object("peak"));
  memory.peak_total = object.integer("peak_total", 0);
  if (object.has("reserved") && !object.at("reserved").is_null())
    memory.reserved = object.integer("reserved", 0);
  if (object.has("host_peak")) memory.host_peak = object.integer("host_peak", 0);
  if (object.has("stages"))
    for (const JsonObject& stage : object.objects("stages"))
      memory.stages.push_back(stage_from_json(stage));
  return memory;
}

json to_json(const Needed& needed) {
  return {{"on", needed.on},
          {"memory", to_json(needed.memory)},
          {"capacity", needed.capacity},
          {"host_capacity", or_null(needed.host_capacity)}};
}

Needed needed_from_json(const JsonObject& object) {
  Needed needed{.on = object.require<std::string>("on"),
                .memory = memory_from_json(object.object("memory")),
                .capacity = object.integer("capacity", 0)};
  if (!object.at("host_capacity").is_null())
    needed.host_capacity = object.integer("host_capacity", 0);
  if (needed.memory.stages.empty()) object.object("memory").fail("stages", "is empty");
  return needed;
}

/// What a case gave, which only some kinds of cases have.
void results_from_json(const JsonObject& object, Record& record) {
  if (object.has("findings")) record.findings = texts(object, "findings");
  const JsonObject metrics = object.object("metrics");
  for (const auto& [name, value] : object.at("metrics").items()) {
    const JsonObject metric = metrics.object(name);
    record.metrics[name] = {metric.require<std::string>("unit"),
                            metric.require<std::vector<double>>("samples")};
    if (record.metrics[name].samples.empty()) metric.fail("samples", "is empty");
  }
  if (!object.at("memory").is_null()) record.memory = memory_from_json(object.object("memory"));
  if (object.has("needed")) record.needed = needed_from_json(object.object("needed"));
  if (!object.at("flops").is_null()) record.flops = flops_from_json(object.object("flops"));
  if (object.has("work") && !object.at("work").is_null())
    record.work = step_work_from_json(object.object("work"));
  if (!object.at("utilization").is_null())
    record.utilization = utilization_from_json(object.object("utilization"));
  if (object.has("lone_stages")) {
    const auto stages = object.object("lone_stages").require<std::vector<int64_t>>("stages");
    record.lone_stages = LoneStages{{stages.begin(), stages.end()}};
  }
  if (object.has("gpu_load")) record.gpu_load = gpu_loads_from_json(object.object("gpu_load"));
  if (object.has("ranks") && !object.at("ranks").is_null())
    record.ranks = rank_statistics_from_json(object.object("ranks"));
  record.losses = object.require<std::vector<double>>("losses");
  for (const JsonObject& point : object.objects("held_out"))
    record.held_out.emplace_back(point.integer("step", 0), point.number("loss", 0));
}

json lone_stages(const Record& record) {
  json parts = json::object();
  for (const LoneStages::Part& part : LoneStages::parts)
    if (record.metrics.contains(part.metric)) parts[part.metric] = source_of(record, part);
  return {{"stages", record.lone_stages->stages}, {"parts", parts}};
}

}  // namespace

json to_json(const Record& record) {
  json metrics = json::object(), held_out = json::array();
  for (const auto& [name, metric] : record.metrics) metrics[name] = to_json(metric);
  for (const auto& [step, loss] : record.held_out)
    held_out.push_back({{"step", step}, {"loss", loss}});
  json all = {
      {"schema", Record::schema},
      {"artifact", record.artifact},
      {"case", record.case_id},
      {"what", record.what},
      {"source", name_of(record.source)},
      {"on", record.on},
      {"device", record.device},
      {"communication", communication(record)},
      {"scale", scale_name(record.scale)},
      {"configuration", has_configuration(record.config) ? to_json(record.config) : json(nullptr)},
      {"options", record.options},
      {"machine", record.machine},
      {"program", record.program},
      {"rounds", record.rounds},
      {"fingerprint", record.fingerprint},
      {"status", name_of(record.status)},
      {"reason", record.reason},
      {"metrics", metrics},
      {"findings", record.findings},
      {"memory", record.memory ? to_json(*record.memory) : json(nullptr)},
      {"flops", record.flops ? to_json(*record.flops) : json(nullptr)},
      {"work", record.work ? to_json(*record.work, record.on) : json(nullptr)},
      {"utilization", record.utilization ? to_json(*record.utilization) : json(nullptr)},
      {"ranks", record.ranks ? to_json(*record.ranks) : json(nullptr)},
      {"losses", record.losses},
      {"held_out", held_out},
      {"command", record.command},
      {"started", record.started},
      {"ended", record.ended},
      {"environment", json::parse(record.environment)}};
  // Evidence without it stays byte for byte what it was.
  if (record.needed) all["needed"] = to_json(*record.needed);
  if (record.order_seed) all["order_seed"] = *record.order_seed;
  if (record.lone_stages) all["lone_stages"] = lone_stages(record);
  if (record.gpu_load) all["gpu_load"] = to_json(*record.gpu_load);
  if (!record.files.empty()) all["files"] = record.files;
  return all;
}

json to_json(const std::vector<Record>& records) {
  if (records.size() == 1) return to_json(records.front());
  json all = json::array();
  for (const Record& record : records) all.push_back(to_json(record));
  return all;
}

Record record_from_json(const json& json, const std::string& name) {
  const JsonObject object(json, name);
  if (const auto schema = object.require<std::string>("schema"); schema != Record::schema)
    object.fail("schema",
                fmt::format("is \"{}\"; this program reads \"{}\"", schema, Record::schema));
  Record record;
  record.artifact = object.require<std::string>("artifact");
  record.case_id = object.require<std::string>("case");
  record.what = object.require<std::string>("what");
  record.source = named<Source>(object, "source");
  record.on = object.require<std::string>("on");
  record.device = object.require<std::string>("device");
  record.modelled = communication_from_json(object);
  record.scale = scale_from_json(object);
  if (!object.at("configuration").is_null())
    record.config = run_config_from_json(object.object("configuration"));
  record.options = texts(object, "options");
  if (object.has("files")) record.files = texts(object, "files");
  // Records of the first programs have none of these; they are never current.
  record.machine = object.optional<std::string>("machine", "");
  record.program = object.optional<std::string>("program", "");
  record.rounds = object.optional<std::string>("rounds", "");
  if (object.has("order_seed"))
    record.order_seed = static_cast<uint32_t>(object.integer("order_seed", 0));
  record.fingerprint = object.require<std::string>("fingerprint");
  record.status = named<Status>(object, "status");
  record.reason = object.require<std::string>("reason");
  results_from_json(object, record);
  record.command = object.require<std::string>("command");
  record.started = object.require<std::string>("started");
  record.ended = object.require<std::string>("ended");
  record.environment = object.at("environment").dump();
  return record;
}

}  // namespace frugal::harness
