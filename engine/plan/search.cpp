#include "engine/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>

#include "engine/plan/balance.h"
#include "engine/plan/plan_costs.h"
#include "engine/plan/worth.h"
#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

class Search {
 public:
  explicit Search(const PlanRequest& request)
      : request_(request), costs_(request.machine), worth_(request, costs_) {}

  Plan run() {
    for (const int tensor : request_.tensor)
      for (const Sharing& context : request_.contexts) {
        if (request_.devices % (int64_t{tensor} * context.ranks) != 0) continue;
        const int64_t devices = request_.devices / (int64_t{tensor} * context.ranks);
        for (const int64_t depth : divisors(devices))
          if (divides(depth)) shape(tensor, context, depth, devices / depth);
      }
    // Of what computes least something fast is found soon, and the rest may be too slow.
    std::ranges::stable_sort(ordered_, {}, &Ordered::passes);
    for (const Ordered& each : ordered_) divided(each);
    take_chances();
    put_in_order(plan_.fitting);
    put_in_order(plan_.too_large);
    return std::move(plan_);
  }

 private:
  /// How devices are divided and passes ordered.
  struct Ordered {
    RunConfig run;
    const Links* links;
    double passes;  // seconds of a batch in which nothing is recomputed, divided or waited for
    double least;   // the same, if passes that are made together hide all that they can
  };

  /// What may be the fastest of all.
  struct Chance {
    enum class Of : uint8_t {
      late_steps,   // that are validated later
      some_layers,  // recomputed, as few as fit: about so large a share
      offloading    // so little that the rest fits
    };
    Of of;
    double seconds;  // of a batch, if it is as fast as it can be
    RunConfig run;
    const Links* links;
    double share = 1;

    bool operator>(const Chance& other) const { return seconds > other.seconds; }
  };

  /// Seconds of what is kept.
  double longest() const { return request_.within * fastest_; }

  /// The fastest first; without those that were kept until a faster one was found.
  void put_in_order(std::vector<Candidate>& candidates) {
    const auto seconds = [](const Candidate& c) { return c.prediction.seconds; };
    std::ranges::stable_sort(candidates, {}, seconds);
    const auto end = std::ranges::upper_bound(candidates, longest(), {}, seconds);
    plan_.slower += candidates.end() - end;
    candidates.erase(end, candidates.end());
  }

  /// Whether a model can be cut into so many parts.
  bool divides(int64_t parts) const {
    const int64_t layers = request_.run.model.layers;
    return layers % parts == 0 || (request_.balanced_stages && parts <= layers);
  }

  /// All microbatch sizes of these t, c, d and w.
  void shape(int tensor, const Sharing& context, int64_t depth, int64_t width) {
    if (request_.batch % width != 0) return;
    const int64_t sequences = request_.batch / width;  // of a pipeline
    RunConfig run = request_.run;
    run.tensor_parallel = tensor;
    run.context_parallel = context.ranks;
    run.context = context.kind;
    run.pipeline_parallel = static_cast<int>(depth);
    run.data_parallel = static_cast<int>(width);
    const Links& links = links_.emplace_back(run, request_.machine);
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
      if (divides(int64_t{run.pipeline_parallel} * run.chunks)) beside_or_alone(run, links);
  }

  /// With passes that are made together, where there are some, and without: what a pass has made
  /// leaves for the next stage when both have ended.
  void beside_or_alone(RunConfig run, const Links& links) {
    ordered_.push_back(ordered_by_passes(run, links));
    if (!makes_together(run)) return;
    run.overlap_passes = PassOverlap::off;
    ordered_.push_back(ordered_by_passes(run, links));
  }

  Ordered ordered_by_passes(const RunConfig& run, const Links& links) {
    if (!std::isfinite(request_.within) || rule_against(run)) return {run, &links, 0, 0};
    const PartCost model = costs_.of(without_offload(run)).of(ModelPart::whole(run));
    const double of_stage =
        static_cast<double>(run.microbatches) / static_cast<double>(run.pipeline_parallel);
    const double passes = least_passes(run.schedule, model);
    // A pass takes no less time beside another one than alone.
    const double longer = std::max(model.forward.seconds, passes - model.forward.seconds);
    return {run, &links, of_stage * passes, of_stage * (makes_together(run) ? longer : passes)};
  }

  /// With all that may be recomputed, and that replicas may divide.
  void divided(const Ordered& ordered) {
    if (ordered.least > longest()) {
      plan_.slower += static_cast<int64_t>(request_.shards.size() * request_.recompute.size());
      return;
    }
    RunConfig run = ordered.run;
    for (const Shard shard : request_.shards) {
      if (shard != Shard::none && run.data_parallel * run.context_parallel == 1) continue;
      run.shard = shard;
      if (!allowed(run)) continue;
      for (const Recomputation& again : worth_.recomputing(run)) {
        RunConfig with = run;
        with.recompute = again.kind;
        with.recompute_modules = again.modules;
        if (allowed(with)) stages(with, *ordered.links);
      }
    }
  }

  /// Stages of equal size, and balanced ones where they are others.
  void stages(RunConfig run, const Links& links) {
    const PartCosts& costs = costs_.of(run);
    const int64_t parts = run.part_layout().parts();
    const bool equal = run.model.layers % parts == 0;
    if (equal) recompute_all_or_some(run, costs, links);
    if (!request_.balanced_stages || parts == 1) return;
    run.stage_layers = balanced_layers(run, costs);
    const std::vector<int64_t>& layers = run.stage_layers;
    if (equal && std::ranges::all_of(layers, [&](int64_t n) { return n == layers.front(); }))
      return;
    recompute_all_or_some(run, costs, links);
  }

  /// In the order of how fast they may be, so that the result does not depend on the order in which
  /// others were found.
  void take_chances() {
    for (; !chances_.empty() && chances_.top().seconds < fastest_;) {
      const Chance chance = chances_.top();
      chances_.pop();
      if (chance.of == Chance::Of::some_layers)
        recompute_fewest(chance.run, chance.share, *chance.links);
      else if (chance.of == Chance::Of::offloading)
        offload_least(chance.run, *chance.links);
      else if (allowed(chance.run))
        (void)consider(chance.run, costs_.of(chance.run), *chance.links);
    }
  }

  /// What is recomputed of every layer; and of as few as fit, if that may be the fastest of all.
  void recompute_all_or_some(const RunConfig& run, const PartCosts& costs, const Links& links) {
    const std::optional<Outcome> all = step_soon_or_late(run, costs, links);
    if (request_.searches_offload && all && all->memory > request_.memory &&
        all->seconds < fastest_)
      chances_.push({Chance::Of::offloading, all->seconds, run, &links});
    const bool by_layer = run.recompute == Recompute::full || run.recompute == Recompute::selective;
    if (!request_.some_layers || !by_layer || !all || all->memory > request_.memory) return;
    RunConfig plain = run;
    plain.recompute = Recompute::none;
    plain.recompute_modules = RunConfig::cores;
    if (broken_rule(plain)) return;
    const auto none = predicted(plain, costs_.of(plain), links);
    if (!none || none->memory() <= request_.memory) return;
    const double share = static_cast<double>(none->memory() - request_.memory) /
                         static_cast<double>(none->memory() - all->memory);
    const double seconds = none->seconds + share * (all->seconds - none->seconds);
    if (seconds < fastest_) chances_.push({Chance::Of::some_layers, seconds, run, &links, share});
  }

  /// Of the first layers of each part, as few as fit; that is about so large a share of them.
  void recompute_fewest(RunConfig run, double share, const Links& links) {
    const std::vector<int64_t>& uneven = run.stage_layers;
    const int64_t layers =
        uneven.empty() ? run.model.layers / run.part_layout().parts() : std::ranges::max(uneven);
    const auto fits = [&](int64_t recomputed) {
      run.recompute_layers = recomputed;
      return predict_memory(run, costs_.of(run), links, request_.machine) <= request_.memory;
    };
    auto fewest = std::clamp(static_cast<int64_t>(std::ceil(share * static_cast<double>(layers))),
                             int64_t{1}, layers);
    while (fewest < layers && !fits(fewest)) ++fewest;
    while (fewest > 1 && fits(fewest - 1)) --fewest;
    if (fewest == layers) return;
    run.recompute_layers = fewest;
    (void)step_soon_or_late(run, costs_.of(run), links);
  }

  /// The set of modules that leaves most on the device of those with which it fits.
  void offload_least(RunConfig run, const Links& links) {
    const std::vector<LayerModules>& sets = worth_.offloading(run);
    run.offload = true;
    const auto is_too_large = [&](LayerModules set) {
      run.offload_modules = set;
      return predict_memory(run, costs_.of(run), links, request_.machine) > request_.memory;
    };
    if (sets.empty() || is_too_large(sets.back())) return;
    run.offload_modules = *std::ranges::partition_point(sets, is_too_large);
    if (allowed(run)) (void)step_soon_or_late(run, costs_.of(run), links);
  }

  /// What a configuration is predicted to take; none where it is left out before that is known.
  struct Outcome {
    double seconds, bubble;
    int64_t memory;
  };
  /// Steps in which stages meet; and those that are validated later, if these may be the fastest.
  std::optional<Outcome> step_soon_or_late(RunConfig run, const PartCosts& costs,
                                           const Links& links) {
    const std::optional<Outcome> meeting = consider(run, costs, links);
    if (!request_.late_steps || !meeting || meeting->seconds - meeting->bubble >= fastest_)
      return meeting;
    run.validate_steps = StepValidation::after;
    if (run.validates_later() && run.schedule.flushes && why_not_predicted(run).empty())
      chances_.push({Chance::Of::late_steps, meeting->seconds - meeting->bubble, run, &links});
    return meeting;
  }
  std::optional<Outcome> consider(const RunConfig& run, const PartCosts& costs,
                                  const Links& links) {
    const int64_t refused = plan_.refused;
    auto prediction = predicted(run, costs, links);
    if (!prediction) {
      plan_.slower += plan_.refused == refused ? 1 : 0;
      return std::nullopt;
    }
    const Outcome outcome{prediction->seconds, prediction->part(Bound::bubble),
                          prediction->memory()};
    if (outcome.seconds > longest()) {
      ++plan_.slower;
      return outcome;
    }
    Candidate candidate{run, *std::move(prediction), 0};
    candidate.missing = std::max<int64_t>(candidate.prediction.memory() - request_.memory, 0);
    if (candidate.fits()) fastest_ = std::min(fastest_, outcome.seconds);
    (candidate.fits() ? plan_.fitting : plan_.too_large).push_back(std::move(candidate));
    return outcome;
  }

  /// None where it takes too long, or is refused.
  std::optional<Prediction> predicted(const RunConfig& run, const PartCosts& costs,
                                      const Links& links) {
    try {
      return predict_within(longest(), run, costs, links, request_.machine);
    } catch (const InputError& e) {
      refuse(e);
      return std::nullopt;
    }
  }

  void refuse(const InputError& rule) {
    if (plan_.refused++ == 0) plan_.first_rule = rule.what();
  }

  bool allowed(const RunConfig& run) {
    const std::optional<InputError> rule = rule_against(run);
    if (rule) refuse(*rule);
    return !rule;
  }

  static std::optional<InputError> rule_against(RunConfig run) {
    const int64_t parts = run.part_layout().parts();
    if (run.model.layers % parts != 0) {  // any sizes: what they will be is not known yet
      run.stage_layers.assign(static_cast<size_t>(parts), 1);
      run.stage_layers.back() += run.model.layers - parts;
    }
    return broken_rule(run);
  }

  const PlanRequest& request_;
  PlanCosts costs_;
  WorthTrying worth_;
  std::deque<Links> links_;
  std::vector<Ordered> ordered_;
  Plan plan_;
  double fastest_ = std::numeric_limits<double>::infinity();  // seconds of what fits
  std::priority_queue<Chance, std::vector<Chance>, std::greater<>> chances_;
};

}  // namespace

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
