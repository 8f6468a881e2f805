#include "harness/report/commands/recompute_report.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace frugal::harness {
namespace {

std::vector<RecomputeWay> without_modules(const std::vector<RecomputeWay>& ways) {
  std::vector<RecomputeWay> known;
  std::copy_if(ways.begin(), ways.end(), std::back_inserter(known), [](const RecomputeWay& way) {
    return way.run.recompute_modules == RunConfig::cores;
  });
  return known;
}

/// But for the number of layers.
bool of_same_kind(const RecomputeWay& a, const RecomputeWay& b) {
  return a.run.recompute == b.run.recompute && a.run.recompute_modules == b.run.recompute_modules;
}

std::string modules_of(const RecomputeWay& way) {
  return way.run.recompute == Recompute::selective ? name_of(way.run.recompute_modules) : "";
}

nlohmann::json json_of(const RecomputeWay& way) {
  return {{"recompute", name_of(way.run.recompute)},
          {"modules", modules_of(way)},
          {"layers", way.layers},
          {"step_seconds", way.seconds},
          {"peak_bytes", way.peak},
          {"host_bytes", way.host}};
}

nlohmann::json json_of(const std::vector<RecomputeWay>& ways) {
  nlohmann::json all = nlohmann::json::array();
  for (const RecomputeWay& way : ways) all.push_back(json_of(way));
  return all;
}

nlohmann::json json_of(const RecomputeWay* way) {
  return way == nullptr ? nlohmann::json(nullptr) : json_of(*way);
}

}  // namespace

Table RecomputeReport::table() const {
  const std::vector<RecomputeWay> known = without_modules(ways);
  const RecomputeWay* const best_known = fastest_within(known, memory);
  Table table{{{"recompute"},
               {"modules"},
               {"layers", true},
               {"step time, s", true},
               {"peak memory of a rank", true},
               {"host memory of a rank", true},
               {"remark"}},
              {}};
  const auto add = [&](const RecomputeWay& way, const std::string& remark) {
    table.rows.push_back({std::string(name_of(way.run.recompute)), modules_of(way),
                          std::to_string(way.layers), format_number(way.seconds),
                          format_bytes(way.peak).text(), format_bytes(way.host).text(), remark});
  };
  const std::vector<RecomputeWay> frontier = frontier_of(ways);
  const RecomputeWay* const chosen = fastest_within(frontier, memory);
  for (size_t i = 0; i < frontier.size(); ++i) {
    const RecomputeWay& way = frontier[i];
    const bool first = i == 0 || !of_same_kind(frontier[i - 1], way);
    const bool last = i + 1 == frontier.size() || !of_same_kind(way, frontier[i + 1]);
    if (&way == chosen)
      add(way, "the fastest that fits");
    else if (first || last)
      add(way, way.peak <= memory ? "" : "does not fit");
  }
  if (best_known != nullptr) add(*best_known, "the fastest that fits, without modules");
  return table;
}

nlohmann::json RecomputeReport::json() const {
  const std::vector<RecomputeWay> known = without_modules(ways);
  return {{"schema", "frugal.recompute/1"},
          {"on", on},
          {"device", device},
          {"memory", memory},
          {"executed", ways.size()},
          {"frontier", json_of(frontier_of(ways))},
          {"frontier_without_modules", json_of(frontier_of(known))},
          {"fastest", json_of(fastest_within(ways, memory))},
          {"fastest_without_modules", json_of(fastest_within(known, memory))},
          {"command", command}};
}

}  // namespace frugal::harness
