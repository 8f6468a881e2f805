#include "engine/plan/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "engine/cluster/rank_grid.h"
#include "engine/plan/execute.h"
#include "engine/plan/run_costs.h"
#include "engine/schedule/early_forwards.h"
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
  // Of gradients that replicas divide, each sums its part.
  return times.all_reduce(links.ends,
                          static_cast<double>(tied_table_bytes(run)) / run.shard_ranks());
}

/// Passes of a kind (make_passes()), kept for the next of a search's thousands of predictions: many
/// have the same shape.
std::shared_ptr<const Schedule> passes_of(const ScheduleKind& kind, const ScheduleShape& shape) {
  struct Made {
    ScheduleKind kind;
    ScheduleShape shape;
    std::shared_ptr<const Schedule> schedule;
  };
  constexpr size_t kept = 4;
  static thread_local std::deque<Made> latest;
  for (const Made& each : latest)
    if (each.shape == shape && each.kind == kind) return each.schedule;
  if (latest.size() == kept) latest.pop_back();
  Schedule made = make_passes(kind, shape);
  assign_versions(made);
  latest.push_front({kind, shape, std::make_shared<const Schedule>(std::move(made))});
  return latest.front().schedule;
}

/// A number of microbatches, and the passes of a batch of them.
struct Sample {
  std::shared_ptr<const Schedule> passes;
  std::shared_ptr<const Schedule> batches = {};  // that are played in place of one batch
  StageBusy busiest = {};
  BatchTime time = {};

  int microbatches() const { return passes->microbatches; }
};

/// A prediction in the making. Of many microbatches it plays a few, and fewer, and extends what
/// they take to all.
class Predicting {
 public:
  Predicting(const RunConfig& run, const PartCosts& costs, const Links& links,
             const Machine& machine)
      : run_(run),
        links_(links),
        times_(machine, run.program.device),
        host_capacity_(machine.host_memory /
                       std::min<int64_t>(run.ranks(), machine.devices_per_node)),
        tied_(tied_sum(run, links, times_)),
        part_costs_(costs),
        costs_(run, costs, links, times_, machine) {
    for (int i = 0; i < run.pipeline_parallel; ++i) {
      const ModelPart all = ModelPart::all_of_stage(run, i);
      const bool like_last = i > 0 && costs.alike(all, ModelPart::all_of_stage(run, i - 1));
      parts_.push_back(like_last ? parts_.back() : costs.of(all));
    }
  }

  std::optional<Prediction> within(double seconds) {
    for (int i = 0; i < run_.pipeline_parallel; ++i) {
      prediction_.stages.push_back(stage(i));
      if (least(i) > seconds) return std::nullopt;
    }
    costs_.execute_pairs(run_, part_costs_);
    for (int i = 0; i < run_.pipeline_parallel; ++i)
      if (least(i) > seconds) return std::nullopt;
    add_stage_costs();
    sample();
    add_memory();
    check_hosts();
    play();
    prediction_.seconds = std::accumulate(prediction_.parts.begin(), prediction_.parts.end(), 0.0);
    return std::move(prediction_);
  }

  int64_t memory() {
    prediction_.stages.resize(static_cast<size_t>(run_.pipeline_parallel));
    costs_.execute_pairs(run_, part_costs_);
    sample();
    add_memory();
    return prediction_.memory();
  }

 private:
  /// Seconds of what this stage does in every batch, without waiting.
  double least(int i) const {
    const auto stage = static_cast<size_t>(i);
    return static_cast<double>(run_.microbatches) * costs_.least_passes_of(i, run_.schedule) +
           late_sums(stage) + parts_[stage].step;
  }

  /// Seconds of sums that do not begin in backward passes.
  double late_sums(size_t stage) const {
    if (costs_.clock.beside.empty() || run_.sums_at_once(static_cast<int>(stage)))
      return prediction_.stages[stage].all_reduce;
    double sums = parts_[stage].sums;
    for (int chunk = 0; chunk < run_.chunks && run_.shard != Shard::none; ++chunk)
      sums -= costs_.begun_by(static_cast<int>(stage), chunk);
    return std::max(0.0, sums);
  }

  StagePrediction stage(int i) const {
    const MessageCost message(run_, times_);
    const PartCost& part = parts_[static_cast<size_t>(i)];
    StagePrediction stage;
    for (int chunk = 0; chunk < run_.chunks; ++chunk) {
      const PartCost& of_chunk = costs_.part_of(i, chunk);
      stage.compute += of_chunk.forward.seconds + of_chunk.backward.seconds;
    }
    for (const int next : {i - 1, i + 1})
      if (next >= 0 && next < run_.pipeline_parallel)
        stage.messages += run_.chunks * message.over(times_, links_.between(i, next)).seconds();
    stage.all_reduce = part.sums;
    if (run_.shard == Shard::none)
      stage.all_reduce += times_.all_reduce(links_.replicas[static_cast<size_t>(i)],
                                            summed_bytes(run_, part.gradients));
    // Without a flush, the last passes of a batch take turns with those of the next version.
    const double turns =
        std::min<double>(run_.pipeline_parallel - 1 - i, static_cast<double>(run_.microbatches));
    stage.update =
        part.step + part.late_step + (run_.schedule.delay > 0 ? 2 * turns * part.other_version : 0);
    return stage;
  }

  void add_stage_costs() {
    const bool flushes = run_.schedule.flushes;
    costs_.clock.between_meetings = flushes && !run_.validates_later();
    costs_.clock.validates_later = run_.validates_later();
    if (!flushes && tied_ > 0) costs_.clock.late_table = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const double sums = late_sums(i);
      ClockCosts::Stage stage{
          .sums = sums, .step = step_behind(sums, parts_[i]), .host = parts_[i].host_of_step};
      const bool is_end = i == 0 || i + 1 == parts_.size();
      if (flushes && is_end) stage.sums += tied_;
      const auto index = static_cast<int>(i);
      for (int chunk = 0; chunk < run_.chunks && !flushes; ++chunk)
        stage.other_version.push_back(costs_.part_of(index, chunk).other_version);
      stage.late_step = costs_.part_of(index, 0).late_step;
      costs_.clock.stages.push_back(std::move(stage));
    }
  }

  /// A host that has waited for the last pass may be late with the step behind the sums.
  double step_behind(double sums, const PartCost& part) const {
    const bool waited = run_.program.device.host_waits_around_passes;
    return waited ? std::max(part.step, part.host_of_step - sums) : part.step;
  }

  /// Shape of the run with so many microbatches.
  ScheduleShape shape(int64_t microbatches, int batches) const {
    return {.stages = run_.pipeline_parallel,
            .chunks = run_.chunks,
            .microbatches = static_cast<int>(microbatches),
            .batches = batches,
            .together = run_.overlaps_passes()};
  }
  void sample(std::initializer_list<int64_t> microbatches) {
    samples_.clear();
    for (const int64_t m : microbatches)
      samples_.push_back({.passes = passes_of(run_.schedule, shape(m, 1))});
  }
  void sample() {
    // Microbatches after which most pipelines do the same again and again.
    const int64_t p = run_.pipeline_parallel, enough = (run_.schedule.flushes ? 4 : 3) * p;
    // To play all takes no longer.
    if (run_.microbatches <= enough + enough - p) return sample({run_.microbatches});
    sample({enough, enough - p});
  }
  bool whole() const { return samples_.size() == 1; }
  /// Extends a value of each sample to all microbatches: by as much for each one more as between
  /// the samples.
  template <class Of>
  auto extended(const Of& of) const {
    const auto of_most = of(samples_[0]);
    if (whole()) return of_most;
    using Number = std::remove_const_t<decltype(of_most)>;
    const int most = samples_[0].microbatches(), steps = most - samples_[1].microbatches();
    return of_most + (of_most - of(samples_[1])) * static_cast<Number>(run_.microbatches - most) /
                         static_cast<Number>(steps);
  }
  /// True if each microbatch more takes what a stage computes for it, or more. A stage that has
  /// waited so far, and will not for ever, makes all that follow take longer than those before.
  bool settled() const {
    if (whole()) return true;
    const Sample &more = samples_[0], &fewer = samples_[1];
    const double computes = more.busiest.device - fewer.busiest.device, rounding = 1e-9 * computes;
    return more.time.passes - fewer.time.passes >= computes - rounding &&
           more.time.seconds() - fewer.time.seconds() >= computes - rounding;
  }

  /// Bytes of a stage that validates its steps later: the norm so far, the norm of all that the
  /// last stage tells it (NormRelay), and weights beside those without masters.
  int64_t late_bytes(int i) const {
    if (!run_.validates_later()) return 0;
    const int64_t norms = i + 1 < run_.pipeline_parallel ? 2 : 1;
    return norms * static_cast<int64_t>(sizeof(double)) +
           (run_.has_masters() ? 0 : parts_[static_cast<size_t>(i)].weights);
  }

  void add_memory() {
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
            extended([&](const Sample& of) { return costs_.most_offloaded(*of.passes, i); });
      stage.memory = part.fixed + (run_.schedule.versions_limit(fill) - 1) * part.weights +
                     late_bytes(i) +
                     extended([&](const Sample& of) { return costs_.peak(*of.passes, i); });
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

  BatchTime time_of(const Schedule& schedule) const {
    PipelineClock clock(schedule, costs_.clock);
    if (clock.run()) return clock.time();
    throw InputError(
        fmt::format("schedule is {}, and the program {} has exchanged-messages, for which stages "
                    "would wait for each other",
                    run_.schedule.name, run_.program.name));
  }

  /// Schedule to play: one batch between two meetings; otherwise several, as execute_plan() does.
  const Schedule& played(Sample& sample) {
    if (costs_.clock.between_meetings) return *sample.passes;
    if (sample.batches) return *sample.batches;
    sample.batches = passes_of(run_.schedule, shape(sample.microbatches(), Execution::batches));
    if (run_.validates_later())
      sample.batches = std::make_shared<const Schedule>(validated_later(*sample.batches));
    return *sample.batches;
  }

  /// Puts the second half of each step behind the next batch's early forward passes.
  Schedule validated_later(Schedule batches) {
    const EarlyForwards early(make_schedule(run_.schedule, shape(batches.microbatches, 2)));
    for (int i = 0; i < batches.stages; ++i) {
      const auto stage = static_cast<size_t>(i);
      const int between = early.passes(i, 0);
      add_late_step(i, between > 0);
      Actions actions;
      int until = -1;  // passes until the step is validated; −1: none is begun
      for (const Action& action : batches.actions[stage]) {
        if (until-- == 0) actions.push_back({.kind = ActionKind::step, .chunk = validation});
        actions.push_back(action);
        if (action.kind == ActionKind::step) until = between;
      }
      actions.push_back({.kind = ActionKind::step, .chunk = validation});
      batches.actions[stage] = std::move(actions);
    }
    return batches;
  }

  /// `goes_on`: with passes of the next batch before the step is validated.
  void add_late_step(int i, bool goes_on) {
    const PartCost& part = parts_[static_cast<size_t>(i)];
    const int last = run_.pipeline_parallel - 1;
    MessageCost norm(run_, times_);
    norm.sent = sizeof(double);
    const auto seconds = [&](int from, int to) {
      return from == to ? 0 : norm.over(times_, links_.between(from, to)).alone;
    };
    ClockCosts::Stage& stage = costs_.clock.stages[static_cast<size_t>(i)];
    stage.norm = part.norm;
    stage.ahead = goes_on ? part.ahead : 0;
    stage.validated = goes_on ? part.validated_step : part.step - part.norm;
    stage.passed_on = i < last ? seconds(i, i + 1) : 0;
    stage.told = seconds(last, i);
  }

  void play() {
    for (Sample& sample : samples_) {
      sample.busiest = costs_.busiest(*sample.passes);
      sample.time = time_of(played(sample));
    }
    if (!settled()) {
      sample({run_.microbatches});
      return play();
    }
    const auto most = [&](double StageBusy::*of) {
      return extended([&](const Sample& sample) { return sample.busiest.*of; });
    };
    const auto of = [&](double BatchTime::*part) {
      return extended([&](const Sample& sample) { return sample.time.*part; });
    };
    const double compute = most(&StageBusy::device);
    prediction_.parts = {compute, of(&BatchTime::messages), of(&BatchTime::sums),
                         of(&BatchTime::step), of(&BatchTime::passes) - compute};
    wait_for_host(most(&StageBusy::host));
    if (costs_.clock.late_table)
      add_late_table(extended([](const Sample& s) { return s.time.seconds(); }) -
                     samples_[0].time.seconds());
  }

  /// A host that is never ahead: the device computes no faster than it is given its work.
  void wait_for_host(double host) {
    const auto& parts = prediction_.parts;
    const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
    prediction_.parts[static_cast<size_t>(Bound::compute)] += std::max(0.0, host - all);
  }

  /// Adds the delay of a tied table's sum, which goes on beside the next batch. Passes that were
  /// not played leave it `left_out` seconds more.
  void add_late_table(double left_out) {
    if (tied_ <= left_out) return;
    costs_.clock.late_table = tied_ - left_out;
    const BatchTime &without = samples_[0].time, with = time_of(played(samples_[0]));
    const double of_messages = with.messages - without.messages;
    prediction_.parts[static_cast<size_t>(Bound::messages)] += of_messages;
    prediction_.parts[static_cast<size_t>(Bound::all_reduce)] +=
        with.seconds() - without.seconds() - of_messages;
  }

  const RunConfig& run_;
  const Links& links_;
  const CostModel times_;
  const int64_t host_capacity_;
  const double tied_;
  const PartCosts& part_costs_;
  RunCosts costs_;
  std::vector<PartCost> parts_;  // of each stage, all that it has
  std::vector<Sample> samples_;  // the most microbatches first
  Prediction prediction_;
};

}  // namespace

size_t Prediction::fullest() const {
  const auto most = std::ranges::max_element(stages, {}, &StagePrediction::memory);
  return static_cast<size_t>(most - stages.begin());
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

std::string why_not_predicted(const RunConfig& run) {
  const bool ends_apart = run.model.tied && run.part_layout().last_stage() != 0;
  if (run.validates_later() && ends_apart)
    return "the first stage and the last one sum a table's gradients before they step, and "
           "validate-steps is after, of which there is no prediction; validate steps before, which "
           "takes as long";
  if (run.overlaps_sums() && run.data_parallel == 1 && run.context_parallel > 1 &&
      !run.shards(Shard::optimizer))
    return "overlap-grad-reduce is on and ranks that share a sequence sum alone, of which there is "
           "no prediction; leave it off";
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
