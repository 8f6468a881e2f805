#include "harness/report/document/timeline_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/schedule/text.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// What a stage held at a moment, of each kind.
struct Moment {
  double time = 0;  ///< s
  std::vector<int64_t> bytes;

  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t of_kind : bytes) sum += of_kind;
    return sum;
  }
};

/// The first and the last, and between them of each of `most` equal times the one with most bytes.
std::vector<Moment> thinned(const std::vector<Moment>& all, size_t most) {
  if (all.size() <= most) return all;
  const double begin = all.front().time, whole = all.back().time - begin;
  const auto part = [&](const Moment& moment) {
    return whole > 0 ? std::floor((moment.time - begin) / whole * static_cast<double>(most)) : 0;
  };
  std::vector<Moment> some{all.front()};
  for (auto moment = all.begin() + 1; moment + 1 < all.end();) {
    const auto end = std::find_if(
        moment, all.end() - 1, [&](const Moment& other) { return part(other) != part(*moment); });
    some.push_back(*std::max_element(
        moment, end, [](const Moment& a, const Moment& b) { return a.total() < b.total(); }));
    moment = end;
  }
  some.push_back(all.back());
  return some;
}

/// Of each moment its time, and number and bytes of each kind that changed.
json memory_json(const std::vector<std::string>& kinds, const std::vector<Moment>& all,
                 size_t most) {
  const std::vector<Moment> some = thinned(all, most);
  json rows = json::array();
  std::vector<int64_t> before(kinds.size(), 0);
  for (const Moment& moment : some) {
    json row = {moment.time};
    for (size_t kind = 0; kind < kinds.size(); ++kind)
      if (moment.bytes[kind] != before[kind]) row.insert(row.end(), {kind, moment.bytes[kind]});
    before = moment.bytes;
    rows.push_back(std::move(row));
  }
  return {{"kinds", kinds}, {"rows", rows}, {"moments", all.size()}};
}

/// What the run was, as the trace says it.
json described(const std::string& title, const json& about) {
  return {{"title", title},
          {"source", about.at("source")},
          {"on", about.at("on")},
          {"device", about.at("device")},
          {"command", about.at("command")},
          {"unit", "s"}};
}

json from_memory_file(const json& file, const std::string& title, size_t most) {
  json timeline = described(title, file.at("about"));
  auto kinds = file.at("columns").get<std::vector<std::string>>();
  constexpr size_t before_kinds = 2;  // time and phase
  kinds.erase(kinds.begin(), kinds.begin() + before_kinds);
  for (const json& stage : file.at("stages")) {
    std::vector<Moment> moments;
    for (const json& row : stage.at("rows")) {
      Moment& moment = moments.emplace_back(Moment{row.at(0).get<double>(), {}});
      for (size_t kind = 0; kind < kinds.size(); ++kind)
        moment.bytes.push_back(row.at(before_kinds + kind).get<int64_t>());
    }
    timeline["stages"].push_back({{"name", fmt::format("stage {}", timeline["stages"].size())},
                                  {"memory", memory_json(kinds, moments, most)}});
  }
  return timeline;
}

/// A process of a trace.
struct TracedStage {
  std::string name;
  json spans = json::array();
  std::map<std::string, int64_t> in_use;
  std::vector<std::pair<double, std::map<std::string, int64_t>>> moments;

  void add(const json& event) {
    const std::string phase = event.at("ph"), what = event.at("name");
    if (phase == "M" && what == "process_name") name = event.at("args").at("name");
    const double time = event.value("ts", 0.0) / 1e6;
    if (phase == "X" && event.at("tid") == 0)
      spans.push_back({time, time + event.at("dur").get<double>() / 1e6, what,
                       event.at("args").value("version", -1)});
    if (phase != "C") return;
    if (what == "memory")
      for (const auto& [kind, bytes] : event.at("args").items()) in_use[kind] = bytes;
    if (what == "memory in use") moments.emplace_back(time, in_use);
  }
};

json from_trace(const json& file, const std::string& title, size_t most) {
  json timeline = described(title, file.at("otherData"));
  std::map<int, TracedStage> stages;
  for (const json& event : file.at("traceEvents")) stages[event.at("pid")].add(event);
  for (auto& [number, stage] : stages) {
    std::vector<std::string> kinds;
    for (const auto& [kind, bytes] : stage.in_use) kinds.push_back(kind);
    std::vector<Moment> moments;
    for (const auto& [time, in_use] : stage.moments) {
      Moment& moment = moments.emplace_back(Moment{time, {}});
      for (const std::string& kind : kinds)
        moment.bytes.push_back(in_use.contains(kind) ? in_use.at(kind) : 0);
    }
    timeline["stages"].push_back({{"name", stage.name}, {"spans", std::move(stage.spans)}});
    if (!moments.empty())
      timeline["stages"].back()["memory"] =
          memory_json(kinds, moments, most / std::max<size_t>(stages.size(), 1));
  }
  return timeline;
}

}  // namespace

json timeline_json(const DrawnTimeline& drawn) {
  const Timeline& timeline = drawn.timeline;
  json stages = json::array();
  for (const std::vector<Span>& spans : timeline.stages) {
    json passes = json::array();
    for (const Span& span : spans) {
      if (is_message(span.action.kind)) continue;
      const std::string text = to_text(span.action, timeline.chunks);
      passes.push_back({span.begin, span.end, text.substr(0, text.find('@')), span.action.version});
    }
    stages.push_back({{"name", fmt::format("stage {}", stages.size())}, {"spans", passes}});
  }
  return {{"title", timeline.title},
          {"source", drawn.source},
          {"unit", timeline.unit},
          {"stages", std::move(stages)}};
}

std::vector<json> recorded_timelines(const fs::path& folder, size_t most) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json" && entry.is_regular_file())
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<json> timelines;
  for (const fs::path& path : paths) {
    const std::string text = read_text(path.string());
    const bool memory = text.starts_with(R"({"schema":"frugal.memory/1")");
    if (!memory && !text.starts_with(R"({"traceEvents":)")) continue;
    try {
      // Not by parse_json(), which for a trace's hundred thousand events takes minutes.
      const json file = json::parse(text);
      timelines.push_back(memory ? from_memory_file(file, path.stem().string(), most)
                                 : from_trace(file, path.stem().string(), most));
    } catch (const json::exception& error) {
      throw InputError(
          fmt::format("{} is not as `frugal trace` writes it ({}); write it anew, or "
                      "move it elsewhere",
                      path.string(), error.what()));
    }
  }
  return timelines;
}

}  // namespace frugal::harness
