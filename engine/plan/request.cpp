#include "engine/plan/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/predict.h"

namespace frugal::engine {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    all.push_back(i);
    if (i != n / i) all.push_back(n / i);
  }
  std::sort(all.begin(), all.end());
  return all;
}

RunConfig without_offload(RunConfig run) {
  static_cast<OffloadOptions&>(run) = {.offload_optimizer = run.offload_optimizer};
  return run;
}

std::optional<InputError> broken_rule(const RunConfig& run) {
  try {
    run.validate();
    return std::nullopt;
  } catch (const InputError& e) {
    return e;
  }
}

void PlanRequest::search_all() {
  schedules.clear();
  for (const ScheduleKind& kind : ScheduleKind::all())
    if (kind.flushes) schedules.push_back(kind);
  recompute = {{Recompute::none}, {Recompute::full}};
  for (const LayerModules set : LayerModules::all_sets(LayerModules::searched))
    recompute.push_back({Recompute::selective, set});
  shards = {Shard::none, Shard::optimizer, Shard::gradients, Shard::weights};
  some_layers = late_steps = balanced_stages = searches_offload = true;
  contexts = sharings(balanced_contexts());
}

std::vector<ContextKind> PlanRequest::balanced_contexts() const {
  return {ContextKind::ulysses, run.model.causal ? ContextKind::zigzag : ContextKind::ring};
}

std::vector<Sharing> PlanRequest::sharings(const std::vector<ContextKind>& kinds) const {
  std::vector<Sharing> found = {{}};
  for (const int64_t ranks : divisors(devices)) {
    if (ranks == 1) continue;
    for (const ContextKind kind : kinds) {
      RunConfig shared = run;
      shared.context_parallel = static_cast<int>(ranks);
      shared.context = kind;
      if (!broken_rule(shared)) found.push_back({shared.context_parallel, kind});
    }
  }
  return found;
}

void PlanRequest::validate() const {
  require_able(machine, devices, run.type);
  for (const ScheduleKind& kind : schedules) {
    RunConfig scheduled = run;
    scheduled.schedule = kind;
    if (const std::string why = why_not_predicted(scheduled); !why.empty())
      throw InputError("--" + why);
  }
  // b · w · d · g = B and w · d · t · c = N: for some t and c, B is a multiple of N / (t · c).
  std::vector<int> sizes;  // t · c that divide N
  for (const int t : tensor)
    for (const Sharing& context : contexts)
      if (const int64_t ranks = int64_t{t} * context.ranks; devices % ranks == 0)
        sizes.push_back(static_cast<int>(ranks));
  if (sizes.empty())
    throw InputError(fmt::format(
        "--devices is {}, which --tensor-parallel ({}){} does not divide; give a multiple of it",
        devices, tensor.front(),
        contexts.front().ranks > 1
            ? fmt::format(" x --context-parallel ({})", contexts.front().ranks)
            : ""));
  if (std::ranges::any_of(sizes, [this](int ranks) { return batch % (devices / ranks) == 0; }))
    return;
  const int most = std::ranges::max(sizes), pipelines = devices / most;
  const int64_t below = batch / pipelines * pipelines;
  throw InputError(fmt::format(
      "--batch is {}, and {} devices{} each take the same number of sequences of it; give a "
      "multiple "
      "of {}, such as {}",
      batch, devices, most > 1 ? fmt::format(", {} to each stage of a replica,", most) : "",
      pipelines, std::max<int64_t>(below, pipelines)));
}

}  // namespace frugal::engine
