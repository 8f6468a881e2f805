#include "kernels/virtual/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/named_file.h"

namespace frugal::kernels {
namespace {

using nlohmann::json;

/// Reads {"value", "unit", "source"} objects, checks their unit and collects them.
class ParameterReader {
 public:
  ParameterReader(const JsonObject& group, std::vector<Machine::Parameter>& all)
      : group_(group), all_(all) {}

  double positive(std::string_view key, std::string_view unit) const {
    return read(key, unit, std::numeric_limits<double>::min(), endless);
  }
  double fraction(std::string_view key) const {
    return read(key, "1", std::numeric_limits<double>::min(), 1);
  }
  int64_t whole(std::string_view key, std::string_view unit) const {
    const double value = read(key, unit, 1, 9e15);
    all_.back().whole = true;
    if (value != std::floor(value))
      group_.object(key).fail("value", fmt::format("is {}; it must be a whole number", value));
    return static_cast<int64_t>(value);
  }

 private:
  static constexpr double endless = std::numeric_limits<double>::infinity();

  double read(std::string_view key, std::string_view unit, double low, double high) const {
    const JsonObject entry = group_.object(key);
    entry.allow_only({"value", "unit", "source", "others"});
    const double value = value_of(entry, low, high);
    const auto found = entry.require<std::string>("unit");
    if (found != unit) entry.fail("unit", fmt::format("is \"{}\"; it must be \"{}\"", found, unit));
    Machine::Parameter& parameter = all_.emplace_back();
    parameter = {group_.path_of(key),     value, found, source_of(entry), false,
                 high == 1 ? 1 : endless, {}};
    if (!entry.has("others")) return value;
    for (const JsonObject& other : entry.objects("others")) {
      other.allow_only({"value", "source"});
      parameter.others.push_back({value_of(other, low, high), source_of(other)});
    }
    return value;
  }

  static double value_of(const JsonObject& entry, double low, double high) {
    const auto value = entry.require<double>("value");
    if (!(value >= low && value <= high)) {
      entry.fail("value", fmt::format("is {}; it must be {}", value,
                                      high == 1  ? "above 0 and at most 1"
                                      : low == 1 ? "at least 1"
                                                 : "above 0"));
    }
    return value;
  }

  static std::string source_of(const JsonObject& entry) {
    auto source = entry.require<std::string>("source");
    if (source.empty()) entry.fail("source", "is empty; say where the value comes from");
    return source;
  }

  const JsonObject& group_;
  std::vector<Machine::Parameter>& all_;
};

std::vector<Machine::Tile> read_tiles(const JsonObject& device) {
  const JsonObject entry = device.object("tiles");
  entry.allow_only({"value", "unit", "source"});
  const nlohmann::json& list = entry.at("value");
  const char* allowed = "must be a list of 1 to 8 pairs of whole numbers, such as [256, 128]";
  std::vector<Machine::Tile> tiles;
  if (!list.is_array() || list.empty() || list.size() > 8) entry.fail("value", allowed);
  for (const nlohmann::json& pair : list) {
    const bool good = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                      pair[1].is_number_unsigned();
    if (!good) entry.fail("value", allowed);
    const Machine::Tile tile{pair[0].get<int64_t>(), pair[1].get<int64_t>()};
    if (tile.m < 1 || tile.n < 1 || tile.m > 4096 || tile.n > 4096)
      entry.fail("value",
                 fmt::format("has a tile {} x {}; its sides must be 1 to 4096", tile.m, tile.n));
    tiles.push_back(tile);
  }
  return tiles;
}

/// Rates of kinds of products and norms, and what hosts of programs take for an operation.
void read_rates(const JsonObject& device, const ParameterReader& read, Machine& machine) {
  const auto optional = [&](std::string_view key) {
    return device.has(key) ? read.fraction(key) : 0;
  };
  machine.gemm_2023 = optional("gemm_2023");
  machine.gemm_float8 = optional("gemm_float8");
  if (device.has("flops_float8")) machine.flops_float8 = read.positive("flops_float8", "FLOP/s");
  machine.gemm_accumulated = optional("gemm_accumulated");
  machine.pytorch_norm_fraction = optional("pytorch_norm_fraction");
  machine.engine_norm_fraction = optional("engine_norm_fraction");
  const auto overhead = [&](std::string_view key, double otherwise) {
    return device.has(key) ? read.positive(key, "s") : otherwise;
  };
  machine.eager_overhead = overhead("eager_overhead", machine.launch_overhead);
  machine.engine_overhead = overhead("engine_overhead", machine.eager_overhead);
}

/// Workspaces of libraries, and what chooses them.
void read_libraries(const JsonObject& device, const ParameterReader& read, Machine& machine) {
  Libraries& libraries = machine.libraries;
  libraries.multiprocessors = machine.multiprocessors;
  if (device.has("compute_capability"))
    libraries.compute_capability = read.positive("compute_capability", "1");
  if (device.has("cublas_workspace"))
    libraries.cublas_workspace = read.whole("cublas_workspace", "B");
  if (device.has("transformer_engine_workspace"))
    libraries.transformer_engine_workspace = read.whole("transformer_engine_workspace", "B");
}

void read_device(const JsonObject& device, Machine& machine) {
  device.allow_only({"flops_bf16", "flops_f32", "flops_f64", "flops_float8", "memory_capacity",
                     "communicator_memory", "memory_bandwidth", "memory_fraction", "memory_latency",
                     "l2_bandwidth", "multiprocessors", "host_bandwidth", "host_fraction",
                     "launch_overhead", "kernel_latency", "gemm_fraction", "gemm_sustained",
                     "attention_fraction", "tiles",
                     // Of programs and of the libraries that they use.
                     "gemm_float8", "gemm_2023", "gemm_accumulated", "pytorch_norm_fraction",
                     "engine_norm_fraction", "eager_overhead", "engine_overhead", "batch_overhead",
                     "compute_capability", "cublas_workspace", "transformer_engine_workspace"});
  const ParameterReader read(device, machine.parameters);
  machine.flops_bf16 = read.positive("flops_bf16", "FLOP/s");
  machine.flops_f32 = read.positive("flops_f32", "FLOP/s");
  machine.flops_f64 = read.positive("flops_f64", "FLOP/s");
  machine.memory_capacity = read.whole("memory_capacity", "B");
  if (device.has("communicator_memory"))
    machine.communicator_memory = read.whole("communicator_memory", "B");
  machine.memory_bandwidth = read.positive("memory_bandwidth", "B/s");
  machine.memory_fraction = read.fraction("memory_fraction");
  machine.memory_latency = read.positive("memory_latency", "s");
  machine.l2_bandwidth = read.positive("l2_bandwidth", "B/s");
  machine.multiprocessors = read.whole("multiprocessors", "1");
  machine.host_bandwidth = read.positive("host_bandwidth", "B/s");
  machine.host_fraction = read.fraction("host_fraction");
  machine.launch_overhead = read.positive("launch_overhead", "s");
  machine.kernel_latency = read.positive("kernel_latency", "s");
  machine.gemm_fraction = read.fraction("gemm_fraction");
  machine.gemm_sustained = read.fraction("gemm_sustained");
  read_rates(device, read, machine);
  machine.attention_fraction = read.fraction("attention_fraction");
  if (device.has("batch_overhead")) machine.batch_overhead = read.positive("batch_overhead", "s");
  read_libraries(device, read, machine);
  machine.tiles = read_tiles(device);
}

std::vector<Machine::GroupRates> read_groups(const JsonObject& network) {
  std::vector<Machine::GroupRates> all;
  for (const JsonObject& entry : network.objects("groups")) {
    entry.allow_only({"ranks", "apart", "all_reduce", "all_gather", "reduce_scatter", "source"});
    Machine::GroupRates& one = all.emplace_back();
    one = {entry.require<int64_t>("ranks"), entry.optional<int64_t>("apart", 1),
           entry.require<double>("all_reduce"), entry.require<double>("all_gather"),
           entry.require<double>("reduce_scatter")};
    if (entry.require<std::string>("source").empty())
      entry.fail("source", "is empty; say where the bandwidths come from");
    if (one.ranks < 2) entry.fail("ranks", "must be at least 2");
    if (one.apart < 1) entry.fail("apart", "must be at least 1");
    for (const auto& [key, value] : {std::pair{"all_reduce", one.all_reduce},
                                     {"all_gather", one.all_gather},
                                     {"reduce_scatter", one.reduce_scatter}})
      if (!(value > 0)) entry.fail(key, "must be above 0");
  }
  return all;
}

void read_network(const JsonObject& network, Machine& machine) {
  network.allow_only({"devices_per_node", "host_memory", "link_bandwidth", "link_fraction",
                      "gather_fraction", "network_bandwidth", "devices_per_port",
                      "network_fraction", "lone_fraction", "message_fraction", "exchange_fraction",
                      "collective_share", "collective_multiprocessors", "compute_share",
                      "collective_latency", "link_latency", "network_latency", "groups"});
  const ParameterReader read(network, machine.parameters);
  machine.devices_per_node = read.whole("devices_per_node", "1");
  machine.host_memory = read.whole("host_memory", "B");
  const std::vector<std::string> of_one_alone = {"devices_per_node", "host_memory"};
  if (machine.devices_per_node == 1 && network.keys() == of_one_alone) return;
  machine.link_bandwidth = read.positive("link_bandwidth", "B/s");
  machine.link_fraction = read.fraction("link_fraction");
  machine.gather_fraction = read.fraction("gather_fraction");
  machine.network_bandwidth = read.positive("network_bandwidth", "B/s");
  if (network.has("devices_per_port"))
    machine.devices_per_port = read.whole("devices_per_port", "1");
  machine.network_fraction = read.fraction("network_fraction");
  const auto optional = [&](std::string_view key) {
    return network.has(key) ? read.fraction(key) : 0;
  };
  machine.lone_fraction = optional("lone_fraction");
  machine.message_fraction = optional("message_fraction");
  machine.exchange_fraction = optional("exchange_fraction");
  machine.collective_share = read.fraction("collective_share");
  if (network.has("collective_multiprocessors")) {
    machine.collective_multiprocessors = read.whole("collective_multiprocessors", "1");
    if (machine.collective_multiprocessors >= machine.multiprocessors)
      network.object("collective_multiprocessors")
          .fail("value", fmt::format("is {}; it must be below the {} that the device has",
                                     machine.collective_multiprocessors, machine.multiprocessors));
  }
  machine.compute_share = optional("compute_share");
  for (const auto& [key, share] : {std::pair{"collective_share", machine.collective_share},
                                   std::pair{"compute_share", machine.compute_share}})
    if (share == 1) network.object(key).fail("value", "is 1; it must be below 1");
  machine.collective_latency = read.positive("collective_latency", "s");
  machine.link_latency = read.positive("link_latency", "s");
  machine.network_latency = read.positive("network_latency", "s");
  if (network.has("groups")) machine.groups = read_groups(network);
}

Machine read_machine(const nlohmann::json& json, const std::string& file) {
  const JsonObject root(json, file);
  root.allow_only({"schema", "name", "description", "calibration", "device_names", "device",
                   "peak_clock", "network", "fit", "operations", "attention", "predictions"});
  const auto schema = root.require<std::string>("schema");
  if (schema != "frugal.machine/1")
    root.fail("schema", fmt::format("is \"{}\"; it must be \"frugal.machine/1\"", schema));
  Machine machine;
  machine.name = root.require<std::string>("name");
  machine.description = root.require<std::string>("description");
  machine.calibration = root.optional<std::string>("calibration", "");
  machine.device_names = root.optional<std::vector<std::string>>("device_names", {});
  read_device(root.object("device"), machine);
  if (root.has("peak_clock")) {
    std::vector<Machine::Parameter> clock;
    (void)ParameterReader(root, clock).positive("peak_clock", "Hz");
    machine.peak_clock = clock.front();
  }
  read_network(root.object("network"), machine);
  if (root.has("attention")) machine.attention = read_attention_rates(root);
  if (root.has("operations")) {
    const JsonObject operations = root.object("operations");
    operations.allow_only({"source", "forms"});
    if (operations.require<std::string>("source").empty())
      operations.fail("source", "is empty; say how they were measured");
    machine.operations = read_operations(operations.object("forms"));
  }
  return machine;
}

constexpr NamedFolder machines{"hardware/", "machine"};

/// Rates of a base's kernels of attention, or the same shares of a smaller peak.
json carried_attention(const json& machine, const json& base) {
  const auto peak = [](const json& of) {
    return of.at("device").at("flops_bf16").at("value").get<double>();
  };
  const double ratio = peak(machine) / peak(base);
  json all = base.at("attention");
  if (ratio >= 1) return all;
  for (json& one : all) {
    for (const char* direction : {"forward", "backward"})
      for (json& rate : one.at(direction)) rate = rate.get<double>() * ratio;
    one["source"] =
        fmt::format("carried over from {}, as a share of the peak: {}",
                    base.at("name").get<std::string>(), one.at("source").get<std::string>());
  }
  return all;
}

/// Fills in what `machine` lacks from its base.
void complete(json& machine, const json& base) {
  const auto of = base.at("name").get<std::string>();
  for (const char* group : {"device", "network"}) {
    for (const auto& [key, entry] : base.at(group).items()) {
      if (machine[group].contains(key) || key == "groups") continue;  // of other links
      machine[group][key] = entry;
      machine[group][key].erase("others");  // of the other machine
      machine[group][key]["source"] =
          fmt::format("carried over from {}: {}", of, entry.at("source").get<std::string>());
    }
  }
  if (!machine.contains("operations") && base.contains("operations"))
    machine["operations"] = base.at("operations");
  if (!machine.contains("attention") && base.contains("attention"))
    machine["attention"] = carried_attention(machine, base);
  if (!machine.contains("calibration") && base.contains("calibration"))
    machine["calibration"] =
        fmt::format("as {}: {}", of, base.at("calibration").get<std::string>());
}

/// `above` are the files that have this one as their base, the first one first.
json with_bases(json machine, const std::string& file, std::vector<std::string> above) {
  const JsonObject root(machine, file);
  if (!root.has("base")) return machine;
  NamedFile base = file_named_by(root, "base", machines);
  above.push_back(file);
  if (std::find(above.begin(), above.end(), base.name) != above.end())
    root.fail("base",
              fmt::format("makes a machine its own base: {} -> {}; leave it out, or name another",
                          fmt::join(above, " -> "), base.name));
  base.content = with_bases(std::move(base.content), base.name, std::move(above));
  (void)parse_machine(base.content.dump(), base.name);  // its mistakes are its own
  for (const char* group : {"device", "network"}) {
    if (!root.has(group)) machine[group] = json::object();
    (void)root.object(group);
  }
  complete(machine, base.content);
  machine.erase("base");
  return machine;
}

/// The machine of a file, completed from the machine that its `base` names: by its name in
/// hardware/, or as a file beside this one. Every number that this file lacks is the base's, with
/// "carried over from BASE: " before its source; so are operations. Name, description,
/// device_names, fit and predictions are the file's own. calibration is its own too, or "as BASE: "
/// and the base's.
///
/// Throws InputError where a base is missing or wrong, or a machine would be its own base.
json with_base(json machine, const std::string& file) {
  return with_bases(std::move(machine), file, {});
}

}  // namespace

void require_able(const Machine& machine, int64_t devices, DType type) {
  if (devices > 1 && machine.link_bandwidth == 0)
    throw InputError(
        fmt::format("{} devices are asked for, and the machine {} has one, without links; ask for "
                    "one device, or describe the links in its file (network.link_bandwidth and "
                    "what follows it)",
                    devices, machine.name));
  std::vector<std::string_view> measured;
  for (const DType one : {DType::bf16, DType::f32, DType::f64}) {
    const std::string product = fmt::format("gemm {}", name_of(one));
    const auto found = machine.operations.lower_bound(product);
    if (found != machine.operations.end() && found->first.starts_with(product))
      measured.push_back(name_of(one));
  }
  if (!measured.empty() &&
      std::find(measured.begin(), measured.end(), name_of(type)) == measured.end())
    throw InputError(
        fmt::format("the type is {}, and the operations of the machine {} were measured in {}; "
                    "give that as --type",
                    name_of(type), machine.name, fmt::join(measured, " and ")));
}

Machine parse_machine(std::string_view text, const std::string& file) {
  return read_machine(with_base(parse_json(text, file), file), file);
}

Machine find_machine(const std::string& name_or_path, const std::map<std::string, double>& values) {
  const MachineFile file = find_machine_file(name_or_path);
  nlohmann::json json = parse_json(file.text, file.name);
  for (const auto& [key, value] : values) {
    const size_t dot = std::min(key.find('.'), key.size());
    const JsonObject group =
        JsonObject(json, file.name).object(key.substr(0, dot)).object(key.substr(dot + 1));
    group.require<double>("value");
    json[key.substr(0, dot)][key.substr(dot + 1)]["value"] = value;
  }
  return read_machine(json, file.name);
}

std::optional<Machine> machine_of_device(std::string_view device_name) {
  for (const std::string& name : machine_names()) {
    Machine machine = find_machine(name);
    const auto& names = machine.device_names;
    if (std::find(names.begin(), names.end(), device_name) != names.end()) return machine;
  }
  return std::nullopt;
}

MachineFile find_machine_file(const std::string& name_or_path) {
  NamedFile file = find_file(machines, name_or_path);
  return {with_base(std::move(file.content), file.name).dump(), file.name};
}

std::vector<std::string> machine_names() { return machines.names(); }

}  // namespace frugal::kernels
