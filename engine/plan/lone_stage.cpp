#include "engine/plan/lone_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "engine/cluster/rank_grid.h"
#include "engine/comm/modelled.h"
#include "engine/plan/run_costs.h"
#include "engine/schedule/timeline.h"

namespace frugal::engine {
namespace {

/// A run whose replicas sum what each of them has computed whole.
bool sums_whole_gradients(const RunConfig& run) { return run.shard == Shard::none; }

using Kinds = std::vector<std::tuple<int64_t, int64_t, bool, bool, bool>>;
Kinds kinds_of(const RunConfig& run, int stage) {
  const int64_t kinds = run.model.window > 0 ? run.model.window_period : 1;
  Kinds of;
  for (const ModelPart& part : ModelPart::chunks_of(run, stage))
    of.emplace_back(part.first_layer % kinds, part.layers, part.first, part.last,
                    part.beside_other_end);
  return of;
}

/// Seconds of a microbatch's passes.
double passes_of(const StageSeconds& stage) {
  double seconds = 0;
  for (const PassSeconds& chunk : stage.chunks)
    seconds = std::accumulate(chunk.begin(), chunk.end(), seconds);
  return seconds;
}

/// Sums over some batches: how often each kind of pass was made, and how long all took.
struct Observed {
  explicit Observed(const RunConfig& run) : counts(static_cast<size_t>(run.chunks)) {
    seconds.chunks.resize(static_cast<size_t>(run.chunks));
  }
  StageSeconds seconds;
  std::vector<std::array<int, all_passes.size()>> counts;

  void add(const Span& span) {
    const double took = span.end - span.begin;
    if (span.action.kind == ActionKind::step) seconds.step += took;
    if (!is_pass(span.action.kind)) return;
    const auto chunk = static_cast<size_t>(span.action.chunk);
    const auto kind = static_cast<size_t>(span.action.kind);
    seconds.chunks.at(chunk).at(kind) += took;
    ++counts.at(chunk).at(kind);
  }
  StageSeconds means() const {
    StageSeconds mean = seconds;
    for (size_t chunk = 0; chunk < counts.size(); ++chunk)
      for (size_t kind = 0; kind < all_passes.size(); ++kind)
        mean.chunks[chunk][kind] /= std::max(counts[chunk][kind], 1);
    return mean;
  }
};

}  // namespace

std::string why_not_lone_stages(const RunConfig& run) {
  if (run.validates_later())
    return "validate-steps is after, and stages that are absent pass no norm on; validate steps "
           "before";
  if (run.offload)
    return "activations are offloaded, whose copies go on beside the next passes, so that passes "
           "have no time of their own; leave the offload out";
  if (makes_together(run))
    return fmt::format(
        "schedule is {}, which makes passes of two microbatches together; choose --overlap-passes "
        "off",
        run.schedule.name);
  return why_not_predicted(run);
}

int stage_like(const RunConfig& run, int stage) {
  const Kinds own = kinds_of(run, stage);
  for (int first = 0; first < stage; ++first)
    if (kinds_of(run, first) == own) return first;
  return stage;
}

std::vector<int> distinct_stages(const RunConfig& run) {
  std::vector<int> distinct;
  for (int stage = 0; stage < run.pipeline_parallel; ++stage)
    if (stage_like(run, stage) == stage) distinct.push_back(stage);
  return distinct;
}

RunConfig lone_stage_of(const RunConfig& run) {
  RunConfig lone = run;
  if (sums_whole_gradients(run)) lone.data_parallel = 1;
  return lone;
}

LoneStage::LoneStage(Cluster& cluster, const RunConfig& run, const TrainConfig& train)
    : cluster_(cluster), trainer_(cluster, lone_stage_of(run), train) {
  trainer_.keep_timeline(true);
}

double LoneStage::charged() {
  double seconds = 0;
  std::set<const Communicator*> counted;
  for (const Communicator* group : cluster_.rank(0).groups.all())
    if (const auto* modelled = dynamic_cast<const ModelledCommunicator*>(group))
      if (counted.insert(group).second) seconds += modelled->charged();
  return seconds;
}

std::vector<StageSeconds> LoneStage::run(const std::vector<Batch>& batches) {
  const RunConfig& config = trainer_.run_config();
  const double before = charged();
  const std::vector<StepResult> results = trainer_.run(batches);
  std::vector<Observed> each(batches.size(), Observed(config));
  const auto stage = static_cast<size_t>(cluster_.rank(0).stage());
  const std::vector<Span>& spans = trainer_.timeline().stages.at(stage);
  const auto first = static_cast<int>(steps_);
  for (const Span& span : spans) {
    if (is_message(span.action.kind)) continue;
    // A step makes the version behind its batch's.
    const int batch = span.action.kind == ActionKind::step
                          ? span.action.version - 1
                          : span.action.microbatch / static_cast<int>(config.microbatches);
    each.at(static_cast<size_t>(batch - first)).add(span);
  }
  steps_ += static_cast<int64_t>(batches.size());
  const double share = 1 / static_cast<double>(batches.size());
  std::vector<StageSeconds> seconds;
  for (size_t i = 0; i < each.size(); ++i) {
    seconds.push_back(each[i].means());
    seconds.back().collectives = (charged() - before) * share;
    seconds.back().flops = results[i].flops / config.ranks();  // which says it of all
  }
  return seconds;
}

StagesTogether::StagesTogether(const RunConfig& run, const OptimizerOptions& optimizer,
                               const Machine& machine)
    : run_(run),
      distinct_(distinct_stages(run)),
      machine_(machine),
      links_(run, machine),
      costs_(run, optimizer, machine) {}

StepParts StagesTogether::of(const std::vector<StageSeconds>& stages) {
  if (stages.size() != distinct_.size())
    throw std::invalid_argument(fmt::format("times of {} stages, of which {} are distinct",
                                            stages.size(), distinct_.size()));
  for (size_t i = 0; i < stages.size(); ++i) {
    for (int chunk = 0; chunk < run_.chunks; ++chunk)
      costs_.put_passes(ModelPart::of(run_, distinct_[i], chunk),
                        stages[i].chunks.at(static_cast<size_t>(chunk)));
    costs_.put_step(ModelPart::all_of_stage(run_, distinct_[i]), stages[i].step);
  }
  const Prediction all = predict(run_, costs_, links_, machine_);
  const double collectives =
      std::ranges::max_element(stages, {}, [](const auto& s) { return passes_of(s); })->collectives;
  return {.computation = all.part(Bound::compute) + all.part(Bound::update) - collectives,
          .communication = all.part(Bound::messages) + all.part(Bound::all_reduce) + collectives,
          .bubble = std::max(all.part(Bound::bubble), 0.0)};  // of a difference
}

double StagesTogether::flops(const std::vector<StageSeconds>& stages) const {
  double of_pipeline = 0;
  for (int stage = 0; stage < run_.pipeline_parallel; ++stage) {
    const auto found = std::ranges::find(distinct_, stage_like(run_, stage));
    of_pipeline += stages.at(static_cast<size_t>(found - distinct_.begin())).flops;
  }
  return of_pipeline * topology_of(run_).ranks_of_stage();
}

}  // namespace frugal::engine
