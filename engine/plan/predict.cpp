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

/// "a, b or c"
std::string either_of(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

/// Microbatches after which a pipeline of so many stages does the same again and again.
int64_t settled_after(int64_t stages) { return 4 * stages; }

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

/// Two walks of a run: of all its microbatches, or of some that are enough for the pipeline to
/// settle, and of fewer.
struct Walks {
  Walk most, fewer;
  int64_t all = 1;  ///< microbatches of the run

  /// What it is of all: as much more for each microbatch as between the two.
  template <class T>
  T extended(T of_most, T of_fewer) const {
    const auto steps = most.microbatches - fewer.microbatches;
    if (steps == 0) return of_most;
    return of_most +
           (of_most - of_fewer) * static_cast<T>(all - most.microbatches) / static_cast<T>(steps);
  }
};

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

/// Seconds in which the ends sum a tied table's gradients; 0 where there is nothing to sum.
double tied_sum(const RunConfig& run, const Links& links, const CostModel& times) {
  if (!run.model.tied || run.part_layout().last_stage() == 0) return 0;
  const int64_t table = run.model.vocabulary / run.tensor_parallel * run.model.hidden;
  // Of gradients that replicas divide, each sums its part.
  return times.all_reduce(
      links.ends, static_cast<double>(table * size_of(run.state_type())) / run.shard_ranks());
}

/// All of a configuration that a prediction is made of.
class Predicting {
 public:
  Predicting(const RunConfig& run, const PartCosts& costs, const Links& links,
             const Machine& machine)
      : run_(run),
        costs_(costs),
        links_(links),
        times_(machine, run.program.software),
        tied_(tied_sum(run, links, times_)) {
    for (int i = 0; i < run.pipeline_parallel; ++i) parts_.push_back(costs.of(together(run, i)));
  }

  Prediction prediction() {
    for (int i = 0; i < run_.pipeline_parallel; ++i) prediction_.stages.push_back(stage(i));
    const Walks both = walks();
    add_memory(both);
    if (drains_beside_messages(run_))
      walk_through(both);
    else
      by_equations();
    prediction_.seconds = std::accumulate(prediction_.parts.begin(), prediction_.parts.end(), 0.0);
    return std::move(prediction_);
  }

 private:
  StagePrediction stage(int i) const {
    const MessageCost message(run_, times_);
    const PartCost& part = parts_[static_cast<size_t>(i)];
    StagePrediction stage;
    stage.compute = part.forward + part.backward;
    for (const int next : {i - 1, i + 1})
      if (next >= 0 && next < run_.pipeline_parallel)
        stage.messages += run_.chunks * message.seconds(times_, links_.between(i, next));
    stage.all_reduce = part.sums;
    if (run_.shard == Shard::none)
      stage.all_reduce += times_.all_reduce(links_.replicas[static_cast<size_t>(i)],
                                            static_cast<double>(part.gradients));
    // Without a flush, the last passes of a batch take turns with those of the next version.
    const double turns =
        std::min<double>(run_.pipeline_parallel - 1 - i, static_cast<double>(run_.microbatches));
    stage.update = part.step + (run_.schedule.delay > 0 ? 2 * turns * part.other_version : 0);
    return stage;
  }

  Walk walk(int64_t microbatches) const {
    Walk walk = walk_of(run_, static_cast<int>(microbatches), costs_, links_, times_);
    for (const StagePrediction& stage : prediction_.stages) {
      walk.sums.push_back(stage.all_reduce);
      walk.step.push_back(stage.update);
    }
    walk.sums.front() += tied_;
    if (run_.pipeline_parallel > 1) walk.sums.back() += tied_;
    return walk;
  }

  Walks walks() const {
    const int64_t p = run_.pipeline_parallel,
                  enough = std::min(settled_after(p), run_.microbatches);
    Walks both{.most = walk(enough), .fewer = {}, .all = run_.microbatches};
    both.fewer = enough < run_.microbatches ? walk(enough - p) : both.most;
    return both;
  }

  void add_memory(const Walks& walks) {
    for (int i = 0; i < run_.pipeline_parallel; ++i) {
      const PartCost& part = parts_[static_cast<size_t>(i)];
      const StageFill fill{.stage = i,
                           .stages = run_.pipeline_parallel,
                           .chunks = run_.chunks,
                           .microbatches = static_cast<int>(run_.microbatches)};
      prediction_.stages[static_cast<size_t>(i)].memory =
          part.fixed + (run_.schedule.versions_limit(fill) - 1) * part.weights +
          walks.extended(peak_of(walks.most, i), peak_of(walks.fewer, i));
    }
  }

  void walk_through(const Walks& walks) {
    const WalkTime most = time_of(walks.most), fewer = time_of(walks.fewer);
    const auto of = [&](double WalkTime::*part) { return walks.extended(most.*part, fewer.*part); };
    const double compute =
        busiest(walks.most) * static_cast<double>(run_.microbatches) / walks.most.microbatches;
    prediction_.parts = {compute, of(&WalkTime::messages), of(&WalkTime::sums), of(&WalkTime::step),
                         of(&WalkTime::passes) - compute};
  }

  void by_equations() {
    const PassesTime passes = passes_by_equations(run_, costs_, links_, times_);
    double all_reduce = 0, update = 0;
    for (const StagePrediction& stage : prediction_.stages) {
      all_reduce = std::max(all_reduce, stage.all_reduce);
      update = std::max(update, stage.update);
    }
    double tied = tied_;
    if (!run_.schedule.flushes && tied > 0) {
      const double batch = passes.compute + passes.messages + all_reduce + update;
      tied = std::max(
          0.0, late_table(run_, costs_, links_, times_, prediction_.stages[0], tied) - batch);
    }
    prediction_.parts = {passes.compute, passes.messages, all_reduce + tied, update, passes.bubble};
  }

  const RunConfig& run_;
  const PartCosts& costs_;
  const Links& links_;
  const CostModel times_;
  const double tied_;
  std::vector<PartCost> parts_;  // of each stage, all that it has
  Prediction prediction_;
};

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
  if (run.validates_later())
    return "steps are validated after they were made, of which there is no prediction; validate "
           "steps before";
  if (run.schedule.predicted || drains_beside_messages(run)) return {};
  return fmt::format("schedule is {}, of which there is no prediction{}; give {}",
                     run.schedule.name,
                     run.schedule.flushes ? " where messages do not travel beside passes" : "",
                     either_of(ScheduleKind::names(&ScheduleKind::predicted)));
}

Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine) {
  if (const std::string why = why_not_predicted(run); !why.empty())
    throw std::invalid_argument(why);
  return Predicting(run, costs, links, machine).prediction();
}

}  // namespace frugal::engine
