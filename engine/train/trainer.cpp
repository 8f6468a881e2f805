#include "engine/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "engine/checkpoint/gather.h"
#include "engine/data/single_batch.h"
#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

StepResult with_rank(const StepResult& own, const StepResult& all) {
  return {.loss = all.loss + own.loss,
          .gradient_norm = own.gradient_norm,
          .seconds = std::max(all.seconds, own.seconds),
          .flops = all.flops + own.flops};
}

/// Makes the ranks of a pipeline meet, and tells when they did.
double meet_stages(Rank& rank) {
  if (rank.config.pipeline_parallel > 1) rank.groups.stages.barrier();
  return rank.device.now();
}

/// A schedule of one's own may split what its kind does not, and make passes together.
void check_passes(const RunConfig& run, const Schedule& plan) {
  if (run.reduces_in_backward() && splits_backward(plan))
    throw InputError(fmt::format(
        "shard is {} and the schedule has weight gradients computed in passes of their own (W), "
        "when those of a layer would have to be kept whole; write whole backward passes (B), or "
        "choose shard optimizer",
        name_of(run.shard)));
  if (run.step_in_backward && splits_backward(plan))
    throw InputError(
        "step in backward is on and the schedule has weight gradients computed in passes of their "
        "own (W); write whole backward passes (B), or leave it off");
  if (run.shards(Shard::weights) && makes_together(plan))
    throw InputError(
        "shard is weights and the schedule makes passes together (&), which would gather and give "
        "back the same weights; choose overlap_passes=off, or shard=gradients");
}

/// Bytes of a microbatch's token ids, where the stage begins with them, and of its labels.
double input_bytes(const RunConfig& config, StageModel& model) {
  int64_t tensors = 0;
  for (int chunk = 0; chunk < config.chunks; ++chunk) {
    const ModelPart& part = model.part(chunk).part();
    tensors += int64_t{part.first} + int64_t{part.last};
  }
  return static_cast<double>(tensors * config.group_sequence() * config.micro_batch *
                             size_of(DType::i32));
}

void count_from(double start, std::vector<Span>& spans) {
  for (Span& span : spans) {
    span.begin -= start;
    span.end -= start;
  }
}

}  // namespace

Trainer::Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train)
    : DistributedModel(cluster, run, train.optimizer), train_(train) {}

Schedule Trainer::schedule(int batches) const {
  Schedule schedule =
      make_schedule(run_.schedule, {.stages = run_.pipeline_parallel,
                                    .chunks = run_.chunks,
                                    .microbatches = static_cast<int>(run_.microbatches),
                                    .first_batch = steps_,
                                    .batches = batches,
                                    .together = run_.overlaps_passes()});
  if (run_.exchanges_messages()) receive_before_steps(schedule);
  return schedule;
}

void Trainer::warm_up(const Batch& batch) {
  // A schedule without a flush has as many microbatches on their way as 1F1B, in its order.
  const ScheduleKind& kind =
      run_.schedule.flushes ? run_.schedule : ScheduleKind::one_forward_one_backward;
  const Batch all = filled(run_, batch);
  const Schedule schedule = schedule_of(run_, kind, all, steps_, computes_gradients);
  cluster_.run([&](Rank& rank) {
    execute(rank, {.schedule = schedule, .batches = {all}, .scales = {1}});
    of(rank).optimizer->clear_gradients();
    rank.device.synchronize();
  });
}

std::vector<StepResult> Trainer::run(const std::vector<Batch>& batches, const Schedule& plan) {
  const Schedule schedule = run_.overlaps_passes() ? plan : one_by_one(plan);
  check_passes(run_, schedule);
  ScheduleRun what{.schedule = schedule, .batches = batches, .keep_timeline = keep_timeline_};
  for (size_t i = 0; i < batches.size(); ++i) {
    what.scales.push_back(static_cast<float>(1 / counted(batches[i])));
    what.optimizer.push_back(train_.optimizer);
    what.optimizer.back().learning_rate = train_.learning_rate(steps_ + static_cast<int64_t>(i));
  }
  const size_t steps = batches.size();
  std::vector<RankStep> of_ranks(members_.size() * steps);  // each rank's one after the other
  timeline_ = {.title = cluster_.rank(0).device.name(),
               .unit = "s",
               .chunks = schedule.chunks,
               .placement = schedule.kind.placement,
               .microbatches = schedule.microbatches,
               .stages = std::vector<std::vector<Span>>(static_cast<size_t>(schedule.stages))};
  notes_.assign(timeline_.stages.size(), {});
  work_ = {};
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const double flops = rank.flops.total(), waited = rank.activity.waited();
    const WorkSoFar before{rank.device.work(), rank.ledger.kept()};
    const double start = meet_stages(rank);
    StageResult done = execute(rank, what);
    rank.device.synchronize();
    const double share =
        run_.ranks() / static_cast<double>(cluster_.ranks()) / static_cast<double>(steps);
    for (size_t i = 0; i < steps; ++i)
      of_ranks[static_cast<size_t>(rank.index) * steps + i] = {
          .result = {.loss = share_of(rank, done.losses[i] / counted(batches[i])),
                     .gradient_norm = done.gradient_norms[i],
                     .seconds = done.step_ends[i] - start,
                     .flops = (rank.flops.total() - flops) * share},
          .stage = rank.stage(),
          .waited = rank.activity.waited() - waited};
    check_losses(rank, done.losses);
    if (!rank.first_of_stage()) return;
    const std::lock_guard lock(guard);
    count_from(start, done.timeline);
    const auto stage_index = static_cast<size_t>(rank.stage());
    timeline_.stages[stage_index] = std::move(done.timeline);
    notes_[stage_index] = {start, std::move(done.versions)};
    note_work(rank, before, batches.size());
  });
  of_ranks = gather_all(cluster_, of_ranks);
  std::vector<StepResult> results(steps);
  for (size_t i = 0; i < of_ranks.size(); ++i)
    results[i % steps] = with_rank(of_ranks[i].result, results[i % steps]);
  note_times(of_ranks, steps);
  for (size_t i = steps; i-- > 1;) results[i].seconds -= results[i - 1].seconds;
  steps_ += static_cast<int>(steps);
  return results;
}

StepWork Trainer::work() const { return most_work(gather_all(cluster_, std::vector{work_})); }

void Trainer::note_work(const Rank& rank, const WorkSoFar& before, size_t batches) {
  StageModel& model = *of(rank).model;
  const double share = 1 / static_cast<double>(batches);
  StepWork work{
      .stage = rank.stage(),
      .done = {},
      .least = least_bytes(rank, model.parameters(),
                           {.microbatches = static_cast<double>(run_.microbatches),
                            .kept = share * static_cast<double>(rank.ledger.kept() - before.kept),
                            .inputs = input_bytes(run_, model)})};
  work.done.add(rank.device.work(), share);
  work.done.add(before.done, -share);
  work_ = most_work({work_, work});
}

void Trainer::note_times(const std::vector<RankStep>& of_ranks, size_t steps) {
  rank_times_.clear();
  if (!cluster_.notes_waiting()) return;
  for (size_t last = steps - 1; last < of_ranks.size(); last += steps)  // of each rank
    rank_times_.push_back({.stage = of_ranks[last].stage,
                           .seconds = of_ranks[last].result.seconds / static_cast<double>(steps),
                           .waited = of_ranks[last].waited / static_cast<double>(steps)});
}

void Trainer::check_losses(const Rank& rank, const std::vector<double>& losses) const {
  if (!meaningful(rank) || rank.stage() != run_.part_layout().last_stage()) return;
  for (size_t i = 0; i < losses.size(); ++i)
    if (!std::isfinite(losses[i]))
      throw WrongNumbers(fmt::format("the loss is {} in step {}; lower the learning rate",
                                     losses[i], steps_ + static_cast<int>(i) + 1));
}

}  // namespace frugal::engine
