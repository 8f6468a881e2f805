#include "engine/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/plan/balance.h"
#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

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

/// The costs of parts, executed once for all depths and, but for what replicas divide, widths.
class Costs {
 public:
  explicit Costs(const Machine& machine) : machine_(machine) {}

  const PartCosts& of(const RunConfig& run) {
    const Key key{run.tensor_parallel,
                  run.micro_batch,
                  run.recompute,
                  run.recompute == Recompute::selective ? name_of(run.recompute_modules) : "",
                  run.schedule.splits_backward,
                  run.schedule.flushes ? "" : run.schedule.name,
                  run.shard,
                  run.shard == Shard::none ? 1 : run.data_parallel};
    const auto found = costs_.find(key);
    if (found != costs_.end()) return found->second;
    return costs_.emplace(key, PartCosts(run, planned_optimizer(run.schedule), machine_))
        .first->second;
  }

 private:
  using Key = std::tuple<int, int64_t, Recompute, std::string, bool, std::string_view, Shard, int>;
  const Machine& machine_;
  std::map<Key, PartCosts> costs_;
};

class Search {
 public:
  explicit Search(const PlanRequest& request) : request_(request), costs_(request.machine) {}

  Plan run() {
    for (const int tensor : request_.tensor) {
      if (request_.devices % tensor != 0) continue;
      const int64_t devices = request_.devices / tensor;
      for (const int64_t depth : divisors(devices))
        if (divides(depth)) shape(tensor, depth, devices / depth);
    }
    const auto faster = [](const Candidate& a, const Candidate& b) {
      return a.prediction.seconds < b.prediction.seconds;
    };
    std::stable_sort(plan_.fitting.begin(), plan_.fitting.end(), faster);
    std::stable_sort(plan_.too_large.begin(), plan_.too_large.end(), faster);
    return std::move(plan_);
  }

 private:
  /// Whether a model can be cut into so many parts.
  bool divides(int64_t parts) const {
    const int64_t layers = request_.run.model.layers;
    return layers % parts == 0 || (request_.balanced_stages && parts <= layers);
  }

  /// All microbatch sizes of these t, d and w.
  void shape(int tensor, int64_t depth, int64_t width) {
    if (request_.batch % width != 0) return;
    const int64_t sequences = request_.batch / width;  // of a pipeline
    RunConfig run = request_.run;
    run.tensor_parallel = tensor;
    run.pipeline_parallel = static_cast<int>(depth);
    run.data_parallel = static_cast<int>(width);
    const Links links(run, request_.machine);
    for (const int64_t micro_batch : divisors(sequences)) {
      run.micro_batch = micro_batch;
      run.microbatches = sequences / micro_batch;
      if (run.microbatches % depth != 0 || micro_batch > RunConfig::most_sequences ||
          run.microbatches > RunConfig::most_sequences || run.microbatches > most_passes / depth) {
        plan_.not_filling += static_cast<int64_t>(request_.recompute.size());
        continue;
      }
      // A pipeline of one stage has no bubble that another order or a second version of its
      // weights could fill.
      if (depth == 1)
        ordered(run, links, ScheduleKind::one_forward_one_backward);
      else
        for (const ScheduleKind& kind : request_.schedules) ordered(run, links, kind);
    }
  }

  /// With every number of chunks that the schedule may have.
  void ordered(RunConfig run, const Links& links, const ScheduleKind& kind) {
    run.schedule = kind;
    const int least = kind.has_chunks ? std::max(kind.chunks, 2) : 1;
    const int most = kind.has_chunks && kind.chunks == 0 ? PlanRequest::most_chunks : least;
    for (run.chunks = least; run.chunks <= most; ++run.chunks)
      if (divides(int64_t{run.pipeline_parallel} * run.chunks)) divided(run, links);
  }

  /// With all that may be recomputed, and that replicas may divide.
  void divided(RunConfig run, const Links& links) {
    for (const Shard shard : request_.shards) {
      if (shard != Shard::none && run.data_parallel == 1) continue;
      run.shard = shard;
      if (!allowed(run)) continue;
      for (const Recomputation& again : worth_recomputing(run)) {
        RunConfig with = run;
        with.recompute = again.kind;
        with.recompute_modules = again.modules;
        if (allowed(with)) stages(with, links);
      }
    }
  }

  /// Stages of equal size, and balanced ones where they are others.
  void stages(RunConfig run, const Links& links) {
    const PartCosts& costs = costs_.of(run);
    const int64_t parts = run.part_layout().parts();
    const bool equal = run.model.layers % parts == 0;
    if (equal) consider(run, costs, links);
    if (!request_.balanced_stages || parts == 1) return;
    run.stage_layers = balanced_layers(run, costs);
    const std::vector<int64_t>& layers = run.stage_layers;
    if (equal && std::ranges::all_of(layers, [&](int64_t n) { return n == layers.front(); }))
      return;
    consider(run, costs, links);
  }

  void consider(const RunConfig& run, const PartCosts& costs, const Links& links) {
    try {
      Candidate candidate{run, predict(run, costs, links, request_.machine), 0};
      candidate.missing = std::max<int64_t>(candidate.prediction.memory() - request_.memory, 0);
      (candidate.fits() ? plan_.fitting : plan_.too_large).push_back(std::move(candidate));
    } catch (const InputError& e) {
      refuse(e);
    }
  }

  void refuse(const InputError& rule) {
    if (plan_.refused++ == 0) plan_.first_rule = rule.what();
  }

  /// What some of the modules, each set of them, cost and save in a layer; without those that
  /// another set is never worse than.
  const std::vector<Recomputation>& worth_recomputing(const RunConfig& like);

  bool allowed(RunConfig run) {
    const int64_t parts = run.part_layout().parts();
    if (run.model.layers % parts != 0) {  // any sizes: what they will be is not known yet
      run.stage_layers.assign(static_cast<size_t>(parts), 1);
      run.stage_layers.back() += run.model.layers - parts;
    }
    try {
      run.validate();
      return true;
    } catch (const InputError& e) {
      refuse(e);
      return false;
    }
  }

  const PlanRequest& request_;
  Costs costs_;
  Plan plan_;
  /// By t, b and whether backward passes are split.
  std::map<std::tuple<int, int64_t, bool>, std::vector<Recomputation>> worth_;
};

/// Whether a layer with one is slower than with the other, and saves nothing.
bool is_worse(const PartCost& a, const PartCost& b) {
  const double longer = (a.forward + a.backward) - (b.forward + b.backward);
  return longer >= 0 && a.kept >= b.kept && a.forward_peak >= b.forward_peak &&
         a.backward_peak >= b.backward_peak &&
         (longer > 0 || a.kept > b.kept || a.backward_peak > b.backward_peak);
}

const std::vector<Recomputation>& Search::worth_recomputing(const RunConfig& like) {
  const auto several =
      std::ranges::count(request_.recompute, Recompute::selective, &Recomputation::kind);
  if (several < 2) return request_.recompute;
  const auto [found, is_new] =
      worth_.try_emplace({like.tensor_parallel, like.micro_batch, like.schedule.splits_backward});
  if (!is_new) return found->second;
  std::vector<PartCost> layers;
  for (const Recomputation& again : request_.recompute) {
    RunConfig run = like;
    run.shard = Shard::none;
    run.recompute = again.kind;
    run.recompute_modules = again.modules;
    layers.push_back(costs_.of(run).layer());
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool worse = request_.recompute[i].kind == Recompute::selective &&
                       std::ranges::any_of(layers, [&](const PartCost& other) {
                         return is_worse(layers[i], other);
                       });
    if (!worse) found->second.push_back(request_.recompute[i]);
  }
  return found->second;
}

}  // namespace

void PlanRequest::search_all() {
  schedules.clear();
  for (const ScheduleKind& kind : ScheduleKind::all())
    if (kind.flushes) schedules.push_back(kind);
  recompute = {{Recompute::none}, {Recompute::full}};
  for (const LayerModules set : LayerModules::all_sets(LayerModules::recomputable))
    recompute.push_back({Recompute::selective, set});
  shards = {Shard::none, Shard::optimizer, Shard::gradients, Shard::weights};
  balanced_stages = true;
}

void PlanRequest::validate() const {
  require_able(machine, devices, run.type);
  for (const ScheduleKind& kind : schedules) {
    RunConfig scheduled = run;
    scheduled.schedule = kind;
    if (const std::string why = why_not_predicted(scheduled); !why.empty())
      throw InputError("--" + why);
  }
  // b · w · d · g = B and w · d · t = N: for some t, B is a multiple of N / t.
  const auto works = [this](int tensor) {
    return devices % tensor == 0 && batch % (devices / tensor) == 0;
  };
  if (std::none_of(tensor.begin(), tensor.end(), [this](int t) { return devices % t == 0; }))
    throw InputError(fmt::format(
        "--devices is {}, which --tensor-parallel ({}) does not divide; give a multiple of it",
        devices, tensor.front()));
  if (std::any_of(tensor.begin(), tensor.end(), works)) return;
  const int pipelines = devices / tensor.back();
  const int64_t below = batch / pipelines * pipelines;
  throw InputError(fmt::format(
      "--batch is {}, and no b x w x d x g is that with w x d = {} (--devices {}{}); give a "
      "multiple of {}, such as {}",
      batch, pipelines, devices,
      tensor.back() > 1 ? fmt::format(", {} to a stage", tensor.back()) : "", pipelines,
      std::max<int64_t>(below, pipelines)));
}

Plan search(const PlanRequest& request) {
  request.validate();
  Plan plan = Search(request).run();
  if (plan.fitting.empty() && plan.too_large.empty() && plan.refused > 0)
    throw InputError(plan.first_rule);
  if (plan.fitting.empty() && plan.too_large.empty())
    throw InputError(fmt::format(
        "--devices is {}, and no depth that divides it and the model's {} layers leaves w, b and g "
        "with b x w x d x g = {} (--batch); choose another number of devices or batch",
        request.devices, request.run.model.layers, request.batch));
  return plan;
}

}  // namespace frugal::engine
