#include "engine/plan/ordered.h"

#include <algorithm>
#include <numeric>

#include "engine/schedule/schedules.h"

namespace frugal::engine {

std::optional<InputError> rule_against(RunConfig run) {
  const int64_t parts = run.part_layout().parts();
  if (run.model.layers % parts != 0) {  // any sizes: what they will be is not known yet
    run.stage_layers.assign(static_cast<size_t>(parts), 1);
    run.stage_layers.back() += run.model.layers - parts;
  }
  return broken_rule(run);
}

double least_of_batch(const RunConfig& run, const PartCost& model) {
  const double of_stage =
      static_cast<double>(run.microbatches) / static_cast<double>(run.pipeline_parallel);
  const double passes = least_passes(run.schedule, model);
  if (!makes_together(run)) return of_stage * passes;
  // A pass takes no less time beside another one than alone.
  return of_stage * std::max(model.forward.seconds, passes - model.forward.seconds);
}

OrderedRuns::OrderedRuns(const PlanRequest& request, PlanCosts& costs, bool timed)
    : request_(request), costs_(costs), timed_(timed) {
  for (const int tensor : request_.tensor)
    for (const Sharing& context : request_.contexts) {
      if (request_.devices % (int64_t{tensor} * context.ranks) != 0) continue;
      const int64_t devices = request_.devices / (int64_t{tensor} * context.ranks);
      for (const int64_t depth : divisors(devices))
        if (divides(depth)) shape(tensor, context, depth, devices / depth);
    }
  // What computes least comes first: something fast is found soon, and the rest may be too slow.
  std::ranges::stable_sort(all_, {}, &Ordered::passes);
}

/// True if a model can be cut into so many parts.
bool OrderedRuns::divides(int64_t parts) const {
  const int64_t layers = request_.run.model.layers;
  return layers % parts == 0 || (request_.balanced_stages && parts <= layers);
}

/// True if as many sequences in a microbatch as ranks share them could be fewer of both: each rank
/// has the same tokens then, and waits for fewer others.
bool OrderedRuns::fewer_share(const Sharing& context, int64_t micro_batch) const {
  const int64_t both = std::gcd(int64_t{context.ranks}, micro_batch);
  return both > 1 && std::ranges::any_of(request_.contexts, [&](const Sharing& other) {
           return other.ranks == context.ranks / both &&
                  (other.ranks == 1 || other.kind == context.kind);
         });
}

/// Tries all microbatch sizes with these t, c, d and w.
void OrderedRuns::shape(int tensor, const Sharing& context, int64_t depth, int64_t width) {
  if (request_.batch % width != 0) return;
  const int64_t sequences = request_.batch / width;  // of a pipeline
  RunConfig run = request_.run;
  run.tensor_parallel = tensor;
  run.sequence_parallel = run.sequence_parallel && tensor > 1;
  run.context_parallel = context.ranks;
  run.context = context.kind;
  run.pipeline_parallel = static_cast<int>(depth);
  run.data_parallel = static_cast<int>(width);
  const Links& links = links_.emplace_back(run, request_.machine);
  for (const int64_t micro_batch : divisors(sequences)) {
    if (request_.brief && fewer_share(context, micro_batch)) continue;
    run.micro_batch = micro_batch;
    run.microbatches = sequences / micro_batch;
    if (run.microbatches % depth != 0 || micro_batch > RunConfig::most_sequences ||
        run.microbatches > RunConfig::most_sequences || run.microbatches > most_passes / depth) {
      not_filling_ += static_cast<int64_t>(request_.recompute.size());
      continue;
    }
    // A pipeline of one stage has no bubble that another order or a second version of its weights
    // could fill.
    if (depth == 1)
      in_order(run, links, ScheduleKind::one_forward_one_backward);
    else
      for (const ScheduleKind& kind : request_.schedules) in_order(run, links, kind);
  }
}

/// Tries every number of chunks that the schedule may have.
void OrderedRuns::in_order(RunConfig run, const Links& links, const ScheduleKind& kind) {
  run.schedule = kind;
  const int least = kind.has_chunks ? std::max(kind.chunks, 2) : 1;
  const int most = kind.has_chunks && kind.chunks == 0 ? PlanRequest::most_chunks : least;
  for (run.chunks = least; run.chunks <= most; ++run.chunks)
    if (divides(int64_t{run.pipeline_parallel} * run.chunks)) beside_or_alone(run, links);
}

/// Adds the run and, where it makes passes together, a run without that: of passes made together,
/// both must end before a result leaves for the next stage.
void OrderedRuns::beside_or_alone(RunConfig run, const Links& links) {
  all_.push_back(timed(run, links));
  if (!makes_together(run)) return;
  run.overlap_passes = PassOverlap::off;
  all_.push_back(timed(run, links));
}

Ordered OrderedRuns::timed(const RunConfig& run, const Links& links) {
  if (!timed_ || rule_against(run)) return {run, &links, 0, 0};
  RunConfig alone = without_offload(run);
  alone.overlap_passes = PassOverlap::off;
  const PartCost model = costs_.of(alone).without_peaks(ModelPart::whole(run));
  return {run, &links, least_of_batch(alone, model), least_of_batch(run, model)};
}

std::vector<int64_t> balanced_layers(const RunConfig& run, const PartCosts& costs) {
  const PartLayout layout = run.part_layout();
  const auto seconds = [](const PartCost& cost) {
    return cost.forward.seconds + cost.backward.seconds;
  };
  std::vector<int64_t> layers(static_cast<size_t>(layout.parts()), 1);
  std::vector<double> stages(static_cast<size_t>(layout.stages));
  for (int part = 0; part < layout.parts(); ++part)
    stages[static_cast<size_t>(layout.seat_of(part).stage)] +=
        seconds(costs.of({.layers = 1, .first = part == 0, .last = part == layout.parts() - 1}));
  // All layers are alike, so that each may go where least is to be done so far.
  const double layer = seconds(costs.layer());
  for (int64_t left = run.model.layers - layout.parts(); left > 0; --left) {
    const auto least = std::min_element(stages.rbegin(), stages.rend());
    const auto stage = static_cast<int>(stages.rend() - least) - 1;
    *least += layer;
    int fewest = layout.part_at({stage, 0});
    for (int chunk = 1; chunk < layout.chunks; ++chunk)
      if (const int part = layout.part_at({stage, chunk});
          layers[static_cast<size_t>(part)] < layers[static_cast<size_t>(fewest)])
        fewest = part;
    ++layers[static_cast<size_t>(fewest)];
  }
  return layers;
}

}  // namespace frugal::engine
