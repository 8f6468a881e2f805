#include "engine/plan/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "engine/plan/appendix_a.h"
#include "engine/plan/walk.h"
#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

bool drains_beside_messages(const RunConfig& run) {
  return run.schedule.flushes && run.program.software.messages == Messages::beside;
}

/// Microbatches after which a pipeline of so many stages repeats itself stage after stage.
int settled(int stages) { return 4 * stages; }

Walk walk_of(const RunConfig& run, int microbatches, const PartCosts& costs, const Links& links,
             const CostModel& times) {
  const MessageCost message(run, times);
  Walk walk;
  walk.layout = run.part_layout();
  walk.microbatches = microbatches;
  walk.message_bytes = message.bytes;
  walk.keeps_messages = run.program.software.messages != Messages::exchanged;
  const int parts = walk.layout.parts();
  for (int part = 0; part < parts; ++part) {
    const Seat seat = walk.layout.seat_of(part);
    walk.parts.push_back(costs.of(ModelPart::of(run, seat.stage, seat.chunk)));
    const auto seconds = [&](int to) {
      if (to < 0 || to >= parts) return 0.0;
      const int stage = walk.layout.seat_of(to).stage;
      return stage == seat.stage ? 0.0 : message.seconds(times, links.between(seat.stage, stage));
    };
    walk.ahead.push_back(seconds(part + 1));
    walk.back.push_back(seconds(part - 1));
  }
  for (int stage = 0; stage < walk.layout.stages; ++stage)
    walk.actions.push_back(
        run.schedule.passes({stage, walk.layout.stages, walk.layout.chunks, microbatches})
            .actions());
  return walk;
}

/// What a pipeline takes for the batch's microbatches, which are more than it takes to settle: as
/// much more for each as between two numbers of them.
template <class T>
T extended(const RunConfig& run, int settled_at, T fewer, T settled) {
  const auto more = static_cast<T>(run.microbatches - settled_at);
  return settled + (settled - fewer) * more / static_cast<T>(run.pipeline_parallel);
}

/// By one or two walks: what both say of seconds and of memory.
struct Walked {
  PassesTime passes;
  std::vector<int64_t> memory;  // of each stage: microbatches and messages
};

Walked walked(const RunConfig& run, const PartCosts& costs, const Links& links,
              const CostModel& times) {
  const int enough = settled(run.pipeline_parallel);
  const bool all = run.microbatches <= enough;
  const Walk walk =
      walk_of(run, all ? static_cast<int>(run.microbatches) : enough, costs, links, times);
  const Walk fewer =
      all ? Walk{} : walk_of(run, enough - run.pipeline_parallel, costs, links, times);
  Walked found;
  for (int i = 0; i < run.pipeline_parallel; ++i) {
    const int64_t peak = peak_of(walk, i);
    found.memory.push_back(all ? peak : extended(run, enough, peak_of(fewer, i), peak));
  }
  if (!drains_beside_messages(run)) return found;
  WalkTime time = time_of(walk);
  if (!all) {
    const WalkTime less = time_of(fewer);
    time.seconds = extended(run, enough, less.seconds, time.seconds);
    time.without_messages = extended(run, enough, less.without_messages, time.without_messages);
  }
  const double compute = busiest(walk) / walk.microbatches * static_cast<double>(run.microbatches);
  found.passes = {compute, time.seconds - time.without_messages, time.without_messages - compute};
  return found;
}

/// What a stage has between batches is as one part with all of its layers.
ModelPart together(const RunConfig& run, int stage) {
  ModelPart all = ModelPart::of(run, stage, 0);
  for (int chunk = 1; chunk < run.chunks; ++chunk) {
    const ModelPart part = ModelPart::of(run, stage, chunk);
    all.layers += part.layers;
    all.last |= part.last;
  }
  return all;
}

std::vector<StagePrediction> predict_stages(const RunConfig& run, const Walked& walked,
                                            const PartCosts& costs, const Links& links,
                                            const CostModel& times) {
  const MessageCost message(run, times);
  std::vector<StagePrediction> stages;
  for (int i = 0; i < run.pipeline_parallel; ++i) {
    const PartCost part = costs.of(together(run, i));
    StagePrediction stage;
    stage.compute = part.forward + part.backward;
    for (const int next : {i - 1, i + 1})
      if (next >= 0 && next < run.pipeline_parallel)
        stage.messages += run.chunks * message.seconds(times, links.between(i, next));
    if (run.shard == Shard::none)
      stage.all_reduce = times.all_reduce(links.replicas[static_cast<size_t>(i)],
                                          static_cast<double>(part.gradients));
    // Without a flush, the last passes of a batch take turns with those of the next version.
    const double turns =
        std::min<double>(run.pipeline_parallel - 1 - i, static_cast<double>(run.microbatches));
    stage.update = part.step + (run.schedule.delay > 0 ? 2 * turns * part.other_version : 0);
    const StageFill fill{.stage = i,
                         .stages = run.pipeline_parallel,
                         .chunks = run.chunks,
                         .microbatches = static_cast<int>(run.microbatches)};
    stage.memory = part.fixed + (run.schedule.versions_limit(fill) - 1) * part.weights +
                   walked.memory[static_cast<size_t>(i)];
    stages.push_back(stage);
  }
  return stages;
}

/// Seconds in which the ends sum a tied table's gradients; 0 where there is nothing to sum.
double tied_sum(const RunConfig& run, const Links& links, const CostModel& times) {
  if (!run.model.tied || run.part_layout().last_stage() == 0) return 0;
  const int64_t table = run.model.vocabulary / run.tensor_parallel * run.model.hidden;
  return times.all_reduce(links.ends, static_cast<double>(table * size_of(run.state_type())));
}

}  // namespace

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::messages:
      return "messages";
    case Bound::all_reduce:
      return "all-reduce";
    case Bound::update:
      return "optimizer";
    case Bound::bubble:
      return "bubble";
  }
  return "?";
}

size_t Prediction::fullest() const {
  return static_cast<size_t>(
      std::max_element(stages.begin(), stages.end(),
                       [](const auto& a, const auto& b) { return a.memory < b.memory; }) -
      stages.begin());
}

OptimizerOptions planned_optimizer(const ScheduleKind& kind) {
  OptimizerOptions options;
  if (!kind.flushes) options.clip = 0;
  return options;
}

std::string why_not_predicted(const RunConfig& run) {
  if (run.schedule.predicted || drains_beside_messages(run)) return {};
  return fmt::format("schedule is {}, of which there is no prediction{}; give {}",
                     run.schedule.name,
                     run.schedule.flushes ? " where messages do not travel beside passes" : "",
                     fmt::join(ScheduleKind::names(&ScheduleKind::predicted), ", "));
}

Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine) {
  if (const std::string why = why_not_predicted(run); !why.empty())
    throw std::invalid_argument(why);
  const CostModel times(machine, run.program.software);
  const Walked walk = walked(run, costs, links, times);
  Prediction prediction;
  prediction.stages = predict_stages(run, walk, costs, links, times);
  const PassesTime passes =
      drains_beside_messages(run) ? walk.passes : passes_by_equations(run, costs, links, times);
  double all_reduce = 0, update = 0;
  for (const StagePrediction& stage : prediction.stages) {
    all_reduce = std::max(all_reduce, stage.all_reduce);
    update = std::max(update, stage.update);
  }
  double tied = tied_sum(run, links, times);
  if (!run.schedule.flushes && tied > 0) {
    const double batch = passes.compute + passes.messages + all_reduce + update;
    tied = std::max(0.0, late_table(run, costs, links, times, prediction.stages[0], tied) - batch);
  }
  prediction.parts = {passes.compute, passes.messages, all_reduce + tied, update, passes.bubble};
  prediction.seconds = std::accumulate(prediction.parts.begin(), prediction.parts.end(), 0.0);
  return prediction;
}

}  // namespace frugal::engine
