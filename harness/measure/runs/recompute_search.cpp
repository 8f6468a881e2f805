#include "harness/measure/runs/recompute_search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/plan/execute.h"
#include "harness/measure/interrupt.h"
#include "harness/place/environment.h"

namespace frugal::harness {
namespace {

/// Of the largest stage or chunk.
int64_t most_layers_of(const RunConfig& run) {
  if (!run.stage_layers.empty())
    return *std::max_element(run.stage_layers.begin(), run.stage_layers.end());
  return run.model.layers / (int64_t{run.pipeline_parallel} * run.chunks);
}

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
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < ways.size(); i = next++) {
        stop_if_interrupted();
        execute(ways[i], optimizer, machine);
      }
    } catch (...) {
      next = ways.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < usable_processors(); ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
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
