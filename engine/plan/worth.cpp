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

std::vector<RecomputedLayer> WorthTrying::find_recomputing(const RunConfig& like) const {
  std::vector<RecomputedLayer> layers, worth;  // without what is offloaded
  const auto several =
      std::ranges::count(request_.recompute, Recompute::selective, &Recomputation::kind);
  for (const Recomputation& again : request_.recompute) {
    RunConfig run = like;
    run.shard = Shard::none;
    // Whole backward passes tell.
    if (run.schedule.flushes) run.schedule = ScheduleKind::one_forward_one_backward;
    run.recompute = again.kind;
    run.recompute_modules = again.modules;
    if (several < 2) {
      worth.push_back({again});
      continue;
    }
    if (run.offload && broken_rule(run)) continue;  // nothing is left to offload
    layers.push_back({again, costs_.of(without_offload(run)).layer()});
  }
  for (const RecomputedLayer& one : layers) {
    const bool worse = one.again.kind == Recompute::selective &&
                       std::ranges::any_of(layers, [&](const RecomputedLayer& other) {
                         return is_worse(one.layer, other.layer);
                       });
    if (!worse) worth.push_back(one);
  }
  return worth;
}

const std::vector<RecomputedLayer>& WorthTrying::recomputing(const RunConfig& like) {
  const Key key{like.tensor_parallel, like.context_parallel, like.context, like.micro_batch,
                like.schedule.flushes};
  return found(recomputing_, key, [&] { return find_recomputing(like); });
}

std::vector<LayerModules> WorthTrying::find_offloading(const RunConfig& like) const {
  // By how much of a layer stays on the device; of the same, the smaller set.
  std::map<int64_t, LayerModules, std::greater<>> sets;
  for (const LayerModules set : LayerModules::all_sets(like.kept_modules())) {
    RunConfig run = like;
    run.shard = Shard::none;
    run.offload = true;
    run.offload_modules = set;
    sets.emplace(costs_.of(run).of({.layers = 1}).kept, set);
  }
  std::vector<LayerModules> found;
  for (const auto& [kept, set] : sets) found.push_back(set);
  return found;
}

const std::vector<LayerModules>& WorthTrying::offloading(const RunConfig& like) {
  const OffloadingKey key{
      {like.tensor_parallel, like.context_parallel, like.context, like.micro_batch,
       like.schedule.splits_backward},
      like.recompute,
      like.recompute == Recompute::selective ? name_of(like.recompute_modules) : ""};
  return found(offloading_, key, [&] { return find_offloading(like); });
}

}  // namespace frugal::engine
