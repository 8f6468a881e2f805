#include "harness/calibrate/known_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/support/embedded.h"
#include "kernels/support/json_file.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {
namespace {

constexpr const char* bands_file = "results/virtual/published/bands.json";

struct Bands {
  std::vector<Band> all;
  double host_bound_below = 0;  ///< seconds of products a launch, at the data sheet's rate
  int64_t long_from = 0;        ///< tokens
};

Bands read_bands() {
  const nlohmann::json file = parse_json(embedded_file(bands_file).value(), bands_file);
  const JsonObject root(file, bands_file);
  Bands bands{.all = {},
              .host_bound_below = root.number("host_bound_below", 0),
              .long_from = root.integer("long_from", 1)};
  for (const JsonObject& one : root.objects("bands"))
    bands.all.push_back({.machine = one.require<std::string>("machine"),
                         .program = one.require<std::string>("program"),
                         .host_bound = one.require<bool>("host_bound"),
                         .is_long = one.require<bool>("long"),
                         .several_nodes = one.require<bool>("several_nodes"),
                         .count = one.integer("count", 1),
                         .median = one.number("median", 0),
                         .largest = one.number("largest", 0)});
  return bands;
}

const Bands& bands() {
  static const Bands read = read_bands();
  return read;
}

}  // namespace

std::optional<KnownErrors> find_known_errors(const std::string& name_or_path) {
  const auto [text, name] = find_machine_file(name_or_path);
  const nlohmann::json file = parse_json(text, name);
  const JsonObject root(file, name);
  if (!root.has("predictions")) return std::nullopt;
  const JsonObject all = root.object("predictions");
  all.allow_only({"steps", "pairs", "differ_in", "source"});
  const JsonObject steps = all.object("steps"), pairs = all.object("pairs");
  steps.allow_only({"count", "median", "largest"});
  pairs.allow_only({"count", "median", "nine_in_ten"});
  return KnownErrors{
      .steps = {steps.integer("count", 1), steps.number("median", 0), steps.number("largest", 0)},
      .pairs = {pairs.integer("count", 1), pairs.number("median", 0),
                pairs.number("nine_in_ten", 0)},
      .differ_in = all.require<std::string>("differ_in"),
      .source = all.require<std::string>("source")};
}

const std::vector<Band>& all_bands() { return bands().all; }

bool Band::like(const Band& other) const {
  return machine == other.machine && program == other.program && is_long == other.is_long &&
         several_nodes == other.several_nodes;
}

std::string Band::text() const {
  return fmt::format(
      "predicted times of {} published runs like it ({}, {}, {} tokens, {}, bound by the {}) were "
      "off by {:.2g} % (median), {:.2g} % at most",
      count, machine, program, is_long ? "8k or more" : "fewer than 8k",
      several_nodes ? "several nodes" : "one node", host_bound ? "host" : "device", 100 * median,
      100 * largest);
}

nlohmann::json to_json(const Band& band) {
  return {{"machine", band.machine},
          {"program", band.program},
          {"host_bound", band.host_bound},
          {"long", band.is_long},
          {"several_nodes", band.several_nodes},
          {"count", band.count},
          {"median", band.median},
          {"largest", band.largest}};
}

std::vector<Band> find_bands(const std::string& machine, const RunConfig& run) {
  const std::vector<std::string> ours = machine_names();
  if (std::ranges::count(ours, machine) == 0) return {};
  const std::string program = name_of(run.program);
  const Band asked{.machine = machine,
                   .program = program.substr(0, program.find_first_of("+~:")),
                   .is_long = run.model.sequence >= bands().long_from,
                   .several_nodes = run.ranks() > find_machine(machine).devices_per_node};
  std::vector<Band> found;
  std::ranges::copy_if(all_bands(), std::back_inserter(found),
                       [&](const Band& band) { return band.like(asked); });
  return found;
}

std::optional<Band> find_band(const Record& record) {
  const bool whole = record.on.starts_with("virtual:") && record.scale == 1 && !record.modelled &&
                     !record.lone_stages;
  const double peak = record.utilization ? record.utilization->data_sheet_peak.value_or(0) : 0;
  if (!whole || !record.work || !record.flops || peak == 0) return std::nullopt;
  const double busy = record.flops->hardware / peak;  // of each device
  const bool by_host = busy < record.work->done.calls.launches * bands().host_bound_below;
  for (const Band& band : find_bands(record.on.substr(8), record.config))
    if (band.host_bound == by_host) return band;
  return std::nullopt;
}

}  // namespace frugal::harness
