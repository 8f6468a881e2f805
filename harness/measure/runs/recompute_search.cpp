#include "harness/measure/runs/recompute_search.h"

#include <algorithm>

#include "engine/plan/execute.h"
#include "harness/measure/at_once.h"

namespace frugal::harness {

int64_t most_layers_of(const RunConfig& run) {
  if (!run.stage_layers.empty())
    return *std::max_element(run.stage_layers.begin(), run.stage_layers.end());
  return run.model.layers / (int64_t{run.pipeline_parallel} * run.chunks);
}

namespace {

/// Whether a smaller set discards the same.
bool has_no_effect(const RunConfig& run, LayerModules modules) {
  const bool mlp = modules.has(LayerModule::mlp);
  const bool activation = modules.has(LayerModule::activation);
  return (mlp && activation) || ((mlp || activation) && run.mlp_mini_sequences() > 1);
}

void execute(RecomputeWay& way, const OptimizerOptions& optimizer, const Machine& machine) {
  const Execution done = execute_plan(way.run, optimizer, machine);
  way.seconds = done.seconds;
  way.peak = *std::max_element(done.memory.begin(), done.memory.end());
  way.host = *std::max_element(done.on_host.begin(), done.on_host.end());
}

}  // namespace

std::vector<RecomputeWay> ways_to_recompute(RunConfig run) {
  std::vector<RecomputeWay> ways;
  run.recompute = Recompute::none;
  run.recompute_modules = RunConfig::cores;
  run.recompute_group = 1;
  run.recompute_layers = 0;
  ways.push_back({run});
  const auto add = [&](Recompute recompute, LayerModules modules) {
    const int64_t all = most_layers_of(run);
    for (int64_t layers = 1; layers <= all; ++layers) {
      RunConfig way = run;
      way.recompute = recompute;
      way.recompute_modules = modules;
      way.recompute_layers = layers == all ? 0 : layers;
      ways.push_back({way, layers});
    }
  };
  for (const LayerModules modules : LayerModules::all_sets(LayerModules::searched))
    if (!has_no_effect(run, modules)) add(Recompute::selective, modules);
  add(Recompute::full, RunConfig::cores);
  return ways;
}

std::vector<RecomputeWay> executed_ways(const RunConfig& run, const OptimizerOptions& optimizer,
                                        const Machine& machine) {
  std::vector<RecomputeWay> ways = ways_to_recompute(run);
  at_once(ways.size(), [&](size_t i) { execute(ways[i], optimizer, machine); });
  return ways;
}

std::vector<RecomputeWay> frontier_of(std::vector<RecomputeWay> ways) {
  std::stable_sort(ways.begin(), ways.end(), [](const RecomputeWay& a, const RecomputeWay& b) {
    return std::pair(a.seconds, a.peak) < std::pair(b.seconds, b.peak);
  });
  std::vector<RecomputeWay> frontier;
  for (RecomputeWay& way : ways)
    if (frontier.empty() || way.peak < frontier.back().peak) frontier.push_back(std::move(way));
  return frontier;
}

const RecomputeWay* fastest_within(const std::vector<RecomputeWay>& ways, int64_t memory) {
  const RecomputeWay* fastest = nullptr;
  for (const RecomputeWay& way : ways)
    if (way.peak <= memory && (fastest == nullptr || way.seconds < fastest->seconds))
      fastest = &way;
  return fastest;
}

}  // namespace frugal::harness
