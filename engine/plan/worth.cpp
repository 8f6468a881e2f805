#include "engine/plan/worth.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace frugal::engine {
namespace {

/// Whether a layer with one is slower than with the other, and saves nothing.
bool is_worse(const PartCost& a, const PartCost& b) {
  const double longer =
      a.forward.seconds + a.backward.seconds - b.forward.seconds - b.backward.seconds;
  return longer >= 0 && a.kept >= b.kept && a.forward_peak >= b.forward_peak &&
         a.backward_peak >= b.backward_peak &&
         (longer > 0 || a.kept > b.kept || a.backward_peak > b.backward_peak);
}

}  // namespace

const std::vector<Recomputation>& WorthTrying::recomputing(const RunConfig& like) {
  const auto several =
      std::ranges::count(request_.recompute, Recompute::selective, &Recomputation::kind);
  if (several < 2) return request_.recompute;
  const auto [found, is_new] =
      recomputing_.try_emplace({like.tensor_parallel, like.context_parallel, like.context,
                                like.micro_batch, like.schedule.splits_backward});
  if (!is_new) return found->second;
  std::vector<std::pair<Recomputation, PartCost>> layers;  // without what is offloaded
  for (const Recomputation& again : request_.recompute) {
    RunConfig run = like;
    run.shard = Shard::none;
    run.recompute = again.kind;
    run.recompute_modules = again.modules;
    if (run.offload && broken_rule(run)) continue;  // nothing is left to offload
    layers.emplace_back(again, costs_.of(without_offload(run)).layer());
  }
  for (const auto& one : layers) {
    const bool worse = one.first.kind == Recompute::selective &&
                       std::ranges::any_of(layers, [&](const auto& other) {
                         return is_worse(one.second, other.second);
                       });
    if (!worse) found->second.push_back(one.first);
  }
  return found->second;
}

const std::vector<LayerModules>& WorthTrying::offloading(const RunConfig& like) {
  const auto [found, is_new] = offloading_.try_emplace(
      {{like.tensor_parallel, like.context_parallel, like.context, like.micro_batch,
        like.schedule.splits_backward},
       like.recompute,
       like.recompute == Recompute::selective ? name_of(like.recompute_modules) : ""});
  if (!is_new) return found->second;
  // By how much of a layer stays on the device; of the same, the smaller set.
  std::map<int64_t, LayerModules, std::greater<>> sets;
  for (const LayerModules set : LayerModules::all_sets(like.kept_modules())) {
    RunConfig run = like;
    run.shard = Shard::none;
    run.offload = true;
    run.offload_modules = set;
    sets.emplace(costs_.of(run).of({.layers = 1}).kept, set);
  }
  for (const auto& [kept, set] : sets) found->second.push_back(set);
  return found->second;
}

}  // namespace frugal::engine
