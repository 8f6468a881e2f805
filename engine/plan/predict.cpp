#include "engine/plan/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "engine/cluster/rank_grid.h"
#include "engine/plan/execute.h"
#include "engine/plan/walk_of_run.h"
#include "engine/plan/walks.h"
#include "engine/schedule/early_forwards.h"
#include "engine/schedule/passes.h"
#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// "a, b or c"
std::string either_of(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

double gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

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
        times_(machine, run.program.device),
        launch_(machine.launch_overhead),
        host_capacity_(machine.host_memory /
                       std::min<int64_t>(run.ranks(), machine.devices_per_node)),
        tied_(tied_sum(run, links, times_)) {
    for (int i = 0; i < run.pipeline_parallel; ++i)
      parts_.push_back(costs.of(ModelPart::all_of_stage(run, i)));
  }

  std::optional<Prediction> within(double seconds) {
    for (int i = 0; i < run_.pipeline_parallel; ++i) {
      prediction_.stages.push_back(stage(i));
      if (least(i) > seconds) return std::nullopt;
    }
    Walks made = walks();
    add_memory(made);
    check_hosts();
    walk_through(std::move(made));
    prediction_.seconds = std::accumulate(prediction_.parts.begin(), prediction_.parts.end(), 0.0);
    return std::move(prediction_);
  }

  int64_t memory() {
    for (int i = 0; i < run_.pipeline_parallel; ++i) prediction_.stages.push_back(stage(i));
    add_memory(walks());
    return prediction_.memory();
  }

 private:
  /// What this stage does in every batch, whatever it waits for: seconds.
  double least(int i) const {
    const auto stage = static_cast<size_t>(i);
    double passes = 0;
    for (int chunk = 0; chunk < run_.chunks; ++chunk) {
      const ModelPart part = ModelPart::of(run_, i, chunk);
      passes += std::min(least_passes(run_.schedule, costs_.of(part)),
                         least_passes(run_.schedule, costs_.turning(part)));
    }
    if (makes_together(run_)) {
      const auto [ahead, back] = chunks_of(run_, i);
      passes = std::min(passes, costs_.together(ahead, back, 0).pass.seconds +
                                    costs_.together(ahead, back, 1).pass.seconds);
    }
    return static_cast<double>(run_.microbatches) * passes + prediction_.stages[stage].all_reduce +
           parts_[stage].step;
  }

  StagePrediction stage(int i) const {
    const MessageCost message(run_, times_);
    const PartCost& part = parts_[static_cast<size_t>(i)];
    StagePrediction stage;
    for (int chunk = 0; chunk < run_.chunks; ++chunk) {
      const PartCost of_chunk = costs_.of(ModelPart::of(run_, i, chunk));
      stage.compute += of_chunk.forward.seconds + of_chunk.backward.seconds;
    }
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
    stage.update =
        part.step + part.late_step + (run_.schedule.delay > 0 ? 2 * turns * part.other_version : 0);
    return stage;
  }

  /// A host that has waited for the last pass may be late with the step behind the sums.
  double step_behind(double sums, const PartCost& part) const {
    const bool waited = run_.program.device.host_waits_around_passes;
    return waited ? std::max(part.step, part.host_of_step - sums) : part.step;
  }

  Walk walk(int64_t microbatches) const {
    Walk walk = walk_of(run_, static_cast<int>(microbatches), costs_, links_, times_, launch_);
    for (size_t i = 0; i < parts_.size(); ++i) {
      walk.sums.push_back(prediction_.stages[i].all_reduce);
      walk.step.push_back(step_behind(prediction_.stages[i].all_reduce, parts_[i]));
      walk.host_of_step.push_back(parts_[i].host_of_step);
    }
    if (!run_.schedule.flushes) return walk;
    walk.sums.front() += tied_;
    if (run_.pipeline_parallel > 1) walk.sums.back() += tied_;
    return walk;
  }

  Walks walks_of(std::initializer_list<int64_t> microbatches) const {
    Walks walks{.each = {}, .all = run_.microbatches};
    for (const int64_t m : microbatches) walks.each.push_back(walk(m));
    return walks;
  }
  Walks walks() const {
    const int64_t p = run_.pipeline_parallel, enough = settled_after(run_.schedule, p);
    // To walk through all takes no longer.
    if (run_.microbatches <= enough + enough - p) return walks_of({run_.microbatches});
    return walks_of({enough, enough - p});
  }

  /// What a stage has besides where it validates its steps later: the norm so far, that of all
  /// which the last one tells it (NormRelay), and weights beside those that no masters are of.
  int64_t late_bytes(int i) const {
    if (!run_.validates_later()) return 0;
    const int64_t norms = i + 1 < run_.pipeline_parallel ? 2 : 1;
    return norms * static_cast<int64_t>(sizeof(double)) +
           (run_.has_masters() ? 0 : parts_[static_cast<size_t>(i)].weights);
  }

  void add_memory(const Walks& walks) {
    for (int i = 0; i < run_.pipeline_parallel; ++i) {
      const PartCost& part = parts_[static_cast<size_t>(i)];
      const StageFill fill{.stage = i,
                           .stages = run_.pipeline_parallel,
                           .chunks = run_.chunks,
                           .microbatches = static_cast<int>(run_.microbatches)};
      StagePrediction& stage = prediction_.stages[static_cast<size_t>(i)];
      stage.on_host = part.fixed_on_host;
      if (run_.offload)
        stage.on_host +=
            walks.extended([&](size_t walk) { return most_offloaded(walks.each[walk], i); });
      stage.memory = part.fixed + (run_.schedule.versions_limit(fill) - 1) * part.weights +
                     late_bytes(i) +
                     walks.extended([&](size_t walk) { return peak_of(walks.each[walk], i); });
    }
  }

  void check_hosts() const {
    for (size_t i = 0; i < prediction_.stages.size(); ++i)
      if (const int64_t bytes = prediction_.stages[i].on_host; bytes > host_capacity_)
        throw InputError(fmt::format(
            "{} takes {:.1f} GiB of the host's memory for a device of stage {}, which has {:.1f}; "
            "divide it among more devices, or leave {} out",
            run_.offload ? "--offload-modules" : "--offload-optimizer", gib(bytes), i,
            gib(host_capacity_), run_.offload ? "some modules" : "it"));
  }

  WalkTime walked(const Walk& walk) const {
    if (const std::optional<WalkTime> time = time_of(walk)) return *time;
    throw InputError(
        fmt::format("schedule is {}, and the program {} has exchanged-messages, for which stages "
                    "would wait for each other",
                    run_.schedule.name, run_.program.name));
  }

  /// Makes it several batches that follow each other, each step in two halves with forward passes
  /// of the next batch between them.
  void step_late(Walk& walk) const {
    const int m = walk.microbatches;
    walk.batches = Execution::batches;
    const EarlyForwards early(make_schedule(
        run_.schedule,
        {.stages = walk.layout.stages, .chunks = run_.chunks, .microbatches = m, .batches = 2}));
    for (int stage = 0; stage < walk.layout.stages; ++stage) {
      Actions& actions = walk.actions[static_cast<size_t>(stage)];
      const Actions one = std::exchange(actions, {});
      const int between = early.passes(stage, 0);
      walk.late_steps.push_back(late_step(stage, between > 0));
      for (int batch = 0; batch < walk.batches; ++batch) {
        for (size_t i = 0; i < one.size(); ++i) {
          if (batch > 0 && i == static_cast<size_t>(between))
            actions.push_back({.kind = ActionKind::step, .chunk = Walk::validation});
          actions.push_back(one[i]);
          actions.back().microbatch += batch * m;
          actions.back().version = 0;
        }
        actions.push_back({.kind = ActionKind::step});
      }
      actions.push_back({.kind = ActionKind::step, .chunk = Walk::validation});
    }
  }

  /// `goes_on`: with passes of the next batch before the step is validated.
  Walk::LateStep late_step(int stage, bool goes_on) const {
    const PartCost& part = parts_[static_cast<size_t>(stage)];
    const int last = run_.pipeline_parallel - 1;
    MessageCost norm(run_, times_);
    norm.sent = sizeof(double);
    const auto seconds = [&](int from, int to) {
      return from == to ? 0 : norm.on_its_way(times_, links_.between(from, to));
    };
    return {.norm = part.norm,
            .ahead = goes_on ? part.ahead : 0,
            .validated = goes_on ? part.validated_step : part.step - part.norm,
            .passed_on = stage < last ? seconds(stage, stage + 1) : 0,
            .told = seconds(last, stage)};
  }

  /// Makes it several batches that follow each other without a flush, with versions and steps.
  void go_on(Walk& walk) const {
    const int m = walk.microbatches;
    walk.batches = Execution::batches;
    if (tied_ > 0) walk.late = 0;
    for (int stage = 0; stage < walk.layout.stages; ++stage) {
      const Passes passes =
          run_.schedule.passes({stage, walk.layout.stages, walk.layout.chunks, m * walk.batches});
      Actions& actions = walk.actions[static_cast<size_t>(stage)];
      actions.clear();
      int until_step = m * walk.layout.chunks;
      for (Action pass : passes.actions()) {
        pass.version = run_.schedule.version_of({.batch = pass.microbatch / m});
        actions.push_back(pass);
        if (!completes_gradient(pass.kind) || --until_step > 0) continue;
        actions.push_back({.kind = ActionKind::step});
        until_step = m * walk.layout.chunks;
      }
    }
  }

  void walk_through(Walks walks) {
    for (Walk& walk : walks.each) {
      walks.busiest.push_back(busiest(walk));
      if (!run_.schedule.flushes) go_on(walk);
      if (run_.validates_later()) step_late(walk);
    }
    std::vector<WalkTime> times;
    for (const Walk& walk : walks.each) times.push_back(walked(walk));
    if (!walks.settled(times)) return walk_through(walks_of({run_.microbatches}));
    const auto most = [&](double WalkSeconds::*of) {
      return walks.extended([&](size_t walk) { return walks.busiest[walk].*of; });
    };
    const auto of = [&](double WalkTime::*part) {
      return walks.extended([&](size_t walk) { return times[walk].*part; });
    };
    const double compute = most(&WalkSeconds::device);
    prediction_.parts = {compute, of(&WalkTime::messages), of(&WalkTime::sums), of(&WalkTime::step),
                         of(&WalkTime::passes) - compute};
    wait_for_host(most(&WalkSeconds::host));
    if (run_.schedule.flushes || tied_ == 0) return;
    const double all = walks.extended([&](size_t walk) { return times[walk].seconds(); });
    add_late(walks.each[0], times[0], all - times[0].seconds());
  }

  /// A host that is never ahead: the device computes no faster than it is given its work.
  void wait_for_host(double host) {
    const auto& parts = prediction_.parts;
    const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
    prediction_.parts[static_cast<size_t>(Bound::compute)] += std::max(0.0, host - all);
  }

  /// A tied table's sum goes on beside the next batch, and delays what follows where it takes
  /// longer. The passes that were not walked through leave it so many seconds more.
  void add_late(Walk& walk, const WalkTime& without, double left_out) {
    if (tied_ <= left_out) return;
    walk.late = tied_ - left_out;
    const WalkTime with = walked(walk);
    const double of_messages = with.messages - without.messages;
    prediction_.parts[static_cast<size_t>(Bound::messages)] += of_messages;
    prediction_.parts[static_cast<size_t>(Bound::all_reduce)] +=
        with.seconds() - without.seconds() - of_messages;
  }

  const RunConfig& run_;
  const PartCosts& costs_;
  const Links& links_;
  const CostModel times_;
  const double launch_;  // seconds of the host
  const int64_t host_capacity_;
  const double tied_;
  std::vector<PartCost> parts_;  // of each stage, all that it has
  Prediction prediction_;
};

}  // namespace

size_t Prediction::fullest() const {
  return static_cast<size_t>(
      std::max_element(stages.begin(), stages.end(),
                       [](const auto& a, const auto& b) { return a.memory < b.memory; }) -
      stages.begin());
}

int64_t host_memory_of_node(const RunConfig& run, const Prediction& prediction,
                            int64_t devices_per_node) {
  const Topology topology = topology_of(run);
  int64_t most = 0;
  for (int rank = 0, end = 0; rank < topology.ranks();) {
    end = static_cast<int>(std::min<int64_t>(rank + devices_per_node, topology.ranks()));
    int64_t node = 0;
    for (; rank < end; ++rank)
      node += prediction.stages[static_cast<size_t>(topology.coordinate("stages", rank))].on_host;
    most = std::max(most, node);
  }
  return most;
}

OptimizerOptions planned_optimizer(const ScheduleKind& kind) {
  OptimizerOptions options;
  if (!kind.flushes) options.clip = 0;
  return options;
}

std::string why_not_predicted(const RunConfig& run) {
  const bool ends_apart = run.model.tied && run.part_layout().last_stage() != 0;
  if (run.validates_later() && ends_apart)
    return "the first stage and the last one sum a table's gradients before they step, and "
           "validate-steps is after, of which there is no prediction; validate steps before, which "
           "takes as long";
  if (run.overlap_grad_reduce)
    return "overlap-grad-reduce is on, of which there is no prediction; leave it off";
  if (run.schedule.predicted()) return {};
  return fmt::format("schedule is {}, of which there is no prediction; give {}", run.schedule.name,
                     either_of(ScheduleKind::names(&ScheduleKind::predicted)));
}

Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine) {
  return *predict_within(std::numeric_limits<double>::infinity(), run, costs, links, machine);
}

int64_t predict_memory(const RunConfig& run, const PartCosts& costs, const Links& links,
                       const Machine& machine) {
  return Predicting(run, costs, links, machine).memory();
}

std::optional<Prediction> predict_within(double seconds, const RunConfig& run,
                                         const PartCosts& costs, const Links& links,
                                         const Machine& machine) {
  if (const std::string why = why_not_predicted(run); !why.empty())
    throw std::invalid_argument(why);
  return Predicting(run, costs, links, machine).within(seconds);
}

}  // namespace frugal::engine
