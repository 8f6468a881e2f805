#include "engine/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/schedule/schedules.h"
#include "engine/train/gathered_weights.h"
#include "engine/train/of_all_ranks.h"
#include "engine/train/one_block.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

/// Whether what a rank computes is the model's, so that it must be finite.
bool meaningful(const Rank& rank) { return rank.device.backed() && rank.whole(); }

/// What a rank adds to its run's loss: replicas have a part of a batch each, the ranks of a
/// tensor-parallel group all of it. All are summed in the ranks' order once they have ended, so
/// that the bits do not depend on which came first.
double share_of(const Rank& rank, double loss) {
  const bool is_last_stage = rank.stage() + 1 == rank.config.pipeline_parallel;
  if (!is_last_stage || rank.tensor_group.rank() != 0) return 0;
  return meaningful(rank) ? loss : nothing;
}

StepResult with_rank(const StepResult& own, const StepResult& all) {
  return {.loss = all.loss + own.loss,
          .gradient_norm = own.gradient_norm,
          .seconds = std::max(all.seconds, own.seconds),
          .flops = all.flops + own.flops};
}

double sum(const std::vector<double>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

/// Uses every group once, in the same order on all ranks: NCCL makes its communicators then, and
/// groups whose were made in different orders would wait for each other.
void connect(Rank& rank) {
  const RankGroups& g = rank.groups;
  for (Communicator* group :
       {&g.tensor, &g.context, &g.stages, &g.activations, &g.gradients, &g.data, &g.shards,
        &g.copies, &g.ends})
    if (group->size() > 1) group->barrier();
}

/// Makes the ranks of a pipeline meet, and tells when they did.
double meet_stages(Rank& rank) {
  if (rank.config.pipeline_parallel > 1) rank.groups.stages.barrier();
  return rank.device.now();
}

HostTensor host_integers(const std::vector<int32_t>& values, const RunConfig& c) {
  return {{c.model.sequence, c.micro_batch}, {values.begin(), values.end()}, DType::i32};
}

double counted(const Batch& batch) {
  return static_cast<double>(std::max<int64_t>(counted_labels(batch), 1));
}

bool belongs_to_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::receive_activation ||
         kind == ActionKind::send_activation;
}

/// `batch` and microbatches behind it without any label, so that every replica has as many, and as
/// many as the schedule needs. They add nothing to a loss or a gradient.
Batch filled(const RunConfig& c, Batch batch) {
  const size_t unit = static_cast<size_t>(c.data_parallel) *
                      static_cast<size_t>(c.schedule.multiple_of_stages ? c.pipeline_parallel : 1);
  MicroBatch unlabelled = batch.front();
  for (int32_t& label : unlabelled.labels) label = CrossEntropy::ignored_label;
  while (batch.size() % unit != 0) batch.push_back(unlabelled);
  return batch;
}

/// What `kept` says of one batch under the newest weights: in this order, or in the run's own where
/// stages have several chunks.
Schedule schedule_of(const RunConfig& c, const ScheduleKind& kind, const Batch& batch, int newest,
                     bool (*kept)(ActionKind)) {
  Schedule schedule =
      make_schedule(c.schedule.has_chunks ? c.schedule : kind,
                    {.stages = c.pipeline_parallel,
                     .chunks = c.chunks,
                     .microbatches = static_cast<int>(batch.size()) / c.data_parallel,
                     .first_batch = newest});
  for (Actions& actions : schedule.actions)
    std::erase_if(actions, [&](const Action& action) { return !kept(action.kind); });
  return schedule;
}

bool computes_gradients(ActionKind kind) { return kind != ActionKind::step; }

void count_from(double start, std::vector<Span>& spans) {
  for (Span& span : spans) {
    span.begin -= start;
    span.end -= start;
  }
}

}  // namespace

Trainer::Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train)
    : cluster_(cluster),
      run_(run),
      train_(train),
      members_(static_cast<size_t>(cluster.local_ranks())) {
  cluster_.run([this](Rank& rank) {
    connect(rank);
    Member& member = of(rank);
    auto [model, block] = in_one_block(rank, [&] { return std::make_unique<StageModel>(rank); });
    member.model = std::move(model);
    // Passes gather those that they need of weights that replicas divide.
    member.weights = std::make_unique<WeightVersions>(
        run_.shards(Shard::weights) ? ParameterList() : member.model->parameters(), block);
    make_optimizer(rank);
  });
}

void Trainer::make_optimizer(Rank& rank) {
  Member& member = of(rank);
  member.optimizer.reset();  // so that two states never are in memory
  member.optimizer =
      std::make_unique<Optimizer>(rank, member.model->parameters(), train_.optimizer,
                                  member.weights->block(member.weights->newest()));
}

/// While this lives, the newest weights are exact on a rank whose passes read predicted ones
/// (OptimizerOptions::prediction): those that a model is judged by, and saved with.
class Trainer::ExactWeights {
 public:
  ExactWeights(Rank& rank, const Member& member) : weights_(*member.weights) {
    if (!member.optimizer->predicts()) return;
    const Tensor& block = weights_.block(weights_.newest());
    const Tensor exact = rank.allocate(block.type(), block.shape(), Kind::parameter);
    member.optimizer->write_exact(rank, exact);
    predicted_ = weights_.exchange(exact);
  }
  ~ExactWeights() {
    if (!predicted_.empty()) weights_.exchange(predicted_);
  }
  ExactWeights(const ExactWeights&) = delete;
  ExactWeights& operator=(const ExactWeights&) = delete;

 private:
  WeightVersions& weights_;
  Tensor predicted_;
};

/// While this lives, a rank has all of a parameter's newest weights, of those that replicas divide
/// too. All replicas make it.
class Trainer::GatheredWeight {
 public:
  GatheredWeight(Rank& rank, const WeightVersions& weights, Parameter& parameter)
      : gathered_(weights.block(weights.newest())), parameter_({&parameter}) {
    if (rank.config.shards(Shard::weights)) gathered_.begin(rank, parameter_, {});
  }
  ~GatheredWeight() {
    if (parameter_.front()->unit && !parameter_.front()->unit->weights.empty())
      gathered_.end(parameter_);
  }
  GatheredWeight(const GatheredWeight&) = delete;
  GatheredWeight& operator=(const GatheredWeight&) = delete;

 private:
  GatheredWeights gathered_;
  const ParameterList parameter_;
};

StageExecutor Trainer::executor(Rank& rank) {
  Member& member = of(rank);
  return {rank, *member.model, *member.weights, *member.optimizer};
}

Schedule Trainer::schedule(int batches) const {
  Schedule schedule =
      make_schedule(run_.schedule, {.stages = run_.pipeline_parallel,
                                    .chunks = run_.chunks,
                                    .microbatches = static_cast<int>(run_.microbatches),
                                    .first_batch = steps_,
                                    .batches = batches});
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
    executor(rank).run({.schedule = schedule, .batches = {all}, .scales = {1}});
    of(rank).optimizer->clear_gradients(rank);
    rank.device.synchronize();
  });
}

std::vector<StepResult> Trainer::run(const std::vector<Batch>& batches, const Schedule& plan) {
  if (run_.reduces_in_backward() && splits_backward(plan))
    throw InputError(fmt::format(
        "shard is {} and the schedule has weight gradients computed in passes of their own (W), "
        "when those of a layer would have to be kept whole; write whole backward passes (B), or "
        "choose shard optimizer",
        name_of(run_.shard)));
  if (run_.step_in_backward && splits_backward(plan))
    throw InputError(
        "step in backward is on and the schedule has weight gradients computed in passes of their "
        "own (W); write whole backward passes (B), or leave it off");
  ScheduleRun what{.schedule = plan, .batches = batches};
  for (size_t i = 0; i < batches.size(); ++i) {
    what.scales.push_back(static_cast<float>(1 / counted(batches[i])));
    what.optimizer.push_back(train_.optimizer);
    what.optimizer.back().learning_rate = train_.learning_rate(steps_ + static_cast<int64_t>(i));
  }
  const size_t steps = batches.size();
  std::vector<RankStep> of_ranks(members_.size() * steps);  // each rank's one after the other
  timeline_ = {.title = cluster_.rank(0).device.name(),
               .unit = "s",
               .chunks = plan.chunks,
               .microbatches = plan.microbatches,
               .stages = std::vector<std::vector<Span>>(static_cast<size_t>(plan.stages))};
  notes_.assign(timeline_.stages.size(), {});
  work_ = {};
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const double flops = rank.flops.total(), waited = rank.activity.waited();
    const WorkSoFar before{rank.device.work(), rank.ledger.kept()};
    const double start = meet_stages(rank);
    StageExecutor stage = executor(rank);
    stage.keep_timeline = keep_timeline_;
    StageExecutor::Result done = stage.run(what);
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
  of_ranks = of_all_ranks(cluster_, of_ranks);
  std::vector<StepResult> results(steps);
  for (size_t i = 0; i < of_ranks.size(); ++i)
    results[i % steps] = with_rank(of_ranks[i].result, results[i % steps]);
  note_times(of_ranks, steps);
  for (size_t i = steps; i-- > 1;) results[i].seconds -= results[i - 1].seconds;
  steps_ += static_cast<int>(steps);
  return results;
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
  if (!meaningful(rank) || rank.stage() + 1 != run_.pipeline_parallel) return;
  for (size_t i = 0; i < losses.size(); ++i)
    if (!std::isfinite(losses[i]))
      throw WrongNumbers(fmt::format("the loss is {} in step {}; lower the learning rate",
                                     losses[i], steps_ + static_cast<int>(i) + 1));
}

double Trainer::evaluate(const Batch& batch) {
  const Batch all = filled(run_, batch);
  const Schedule schedule = schedule_of(run_, ScheduleKind::gpipe, all, steps_, belongs_to_forward);
  std::vector<double> losses(members_.size());
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, of(rank));
    const StageExecutor::Result done =
        executor(rank).run({.schedule = schedule, .batches = {all}, .training = false});
    losses[static_cast<size_t>(rank.index)] = share_of(rank, done.losses.front());
  });
  return sum(of_all_ranks(cluster_, losses)) / counted(batch);
}

void Trainer::check_values() const {
  if (!cluster_.whole() || !cluster_.rank(0).device.backed())
    throw std::logic_error("values need a device that has them, and all ranks");
}

OnLogits Trainer::collect_logits(const Rank& rank, HostTensor& all, std::mutex& guard) {
  if (rank.replica() > 0) return {};
  return [&, first = std::optional<uint32_t>()](const Pass& pass, const View& logits, int64_t row,
                                                int64_t column) mutable {
    if (!first) first = pass.draw;
    if (pass.draw != *first) return;
    const int64_t before = rank.groups.context.rank() * (all.shape[0] / rank.groups.context.size());
    const std::lock_guard lock(guard);
    gather_into(all, rank.device, logits,
                {.offset = (before + row) * all.shape[1] + column,
                 .run = logits.cols(),
                 .stride = all.shape[1]});
  };
}

HostTensor Trainer::logits(const MicroBatch& microbatch) {
  check_values();
  const Batch batch = filled(run_, {microbatch});
  const Schedule schedule =
      schedule_of(run_, ScheduleKind::gpipe, batch, steps_, belongs_to_forward);
  HostTensor logits =
      unwritten_host_tensor({run_.model.sequence * run_.micro_batch, run_.model.vocabulary});
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, of(rank));
    executor(rank).run({.schedule = schedule,
                        .batches = {batch},
                        .training = false,
                        .on_logits = collect_logits(rank, logits, guard)});
  });
  complete(cluster_, logits);
  return logits;
}

HostTensors Trainer::snapshot(const MicroBatch& microbatch) {
  check_values();
  const ModelConfig& m = run_.model;
  // The other replicas compute nothing that counts.
  const Batch batch = filled(run_, {microbatch});
  const Schedule schedule =
      schedule_of(run_, ScheduleKind::gpipe, batch, steps_, computes_gradients);
  const auto scale = static_cast<float>(1 / counted(batch));
  HostTensors tensors;
  tensors["tokens"] = host_integers(microbatch.tokens, run_);
  tensors["labels"] = host_integers(microbatch.labels, run_);
  std::vector<double> losses(members_.size());
  // Found before the ranks run: they look no name up where another may be adding one.
  HostTensor& logits = tensors["logits"];
  logits = unwritten_host_tensor({m.sequence * run_.micro_batch, m.vocabulary});
  for (const WeightName& weight : weight_names())
    for (const char* prefix : {"weight/", "gradient/"})
      tensors[prefix + weight.name] = unwritten_host_tensor(weight.shape);
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, of(rank));
    StageExecutor stage = executor(rank);
    stage.keep_gradients = true;
    of(rank).optimizer->clear_gradients(rank);
    const StageExecutor::Result done =
        stage.run({.schedule = schedule,
                   .batches = {batch},
                   .scales = {scale},
                   .on_logits = collect_logits(rank, logits, guard)});
    const ParameterList parameters = of(rank).model->parameters();
    Optimizer::complete_gradients(rank, parameters);
    if (rank.replica() == 0)
      losses[static_cast<size_t>(rank.index)] =
          share_of(rank, done.losses.front() / counted(batch));
    for (Parameter* p : parameters) {
      const GatheredWeight whole(rank, *of(rank).weights, *p);
      if (p->is_copy || rank.replica() > 0) continue;
      const GlobalIndex index = p->global_index(rank);
      const std::lock_guard lock(guard);
      gather_into(tensors.at("weight/" + p->name), rank.device, p->view(), index);
      gather_into(tensors.at("gradient/" + p->name), rank.device, p->grad(), index);
    }
    of(rank).optimizer->clear_gradients(rank);
  });
  for (auto& [name, tensor] : tensors)
    if (tensor.type == DType::f32) complete(cluster_, tensor);
  tensors["loss"] = {{1}, {sum(of_all_ranks(cluster_, losses))}};
  return tensors;
}

void Trainer::each_weight(const WeightSink& take) {
  check_values();
  for (const WeightName& weight : weight_names()) {
    HostTensor serial = unwritten_host_tensor(weight.shape);
    std::mutex guard;
    cluster_.run([&](Rank& rank) {
      const ExactWeights exact(rank, of(rank));
      for (Parameter* p : of(rank).model->parameters()) {
        if (p->is_copy || p->name != weight.name) continue;
        const GatheredWeight whole(rank, *of(rank).weights, *p);
        if (rank.replica() > 0) continue;
        const std::lock_guard lock(guard);
        gather_into(serial, rank.device, p->view(), p->global_index(rank));
      }
    });
    complete(cluster_, serial);
    take(weight.name, serial);
  }
}

std::vector<size_t> Trainer::weight_blocks() const {
  std::vector<size_t> blocks;
  for (const Member& member : members_) blocks.push_back(member.weights->blocks());
  return blocks;
}

}  // namespace frugal::engine
