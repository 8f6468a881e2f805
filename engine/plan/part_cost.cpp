#include "engine/plan/part_cost.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/cluster.h"
#include "engine/comm/parallel.h"
#include "engine/model/gpt.h"
#include "engine/train/gathered_weights.h"
#include "engine/train/gradient_reduction.h"
#include "engine/train/host_tensor.h"
#include "engine/train/one_block.h"
#include "engine/train/weight_versions.h"

namespace frugal::engine {
namespace {

/// One part on one rank, and the moments between what it does.
class PartRun {
 public:
  PartRun(Rank& rank, const OptimizerOptions& options, const ModelPart& part, bool together)
      : rank_(rank), options_(options), part_(part), together_(together) {
    auto [model, block] = in_one_block(rank, [&] { return std::make_unique<Gpt>(rank, part); });
    model_ = std::move(model);
    block_ = std::move(block);
    optimizer_ = std::make_unique<Optimizer>(rank, model_->parameters(), options, block_);
  }

  PartCost run() {
    PartCost cost;
    cost.weights = block_.view().bytes();
    cost.gradients = rank_.ledger.current(Kind::gradient);
    pass_through(cost, false);
    if (rank_.config.schedule.splits_backward) pass_through(cost, true);
    if (together_) pass_together(cost);
    double start = now();
    copy_out(rank_, block_);
    cost.other_version = now() - start;
    start = now();
    optimizer_->sum_gradients(rank_, options_);
    cost.sums = now() - start;
    start = now();
    (void)optimizer_->step_with_sums(rank_, options_, {block_, block_});
    if (rank_.config.schedule.delay > 0) copy_versions(rank_, model_->parameters());
    optimizer_->clear_gradients(rank_);
    // A tied table's gradient that is on its way stays in memory until the next step.
    cost.fixed = rank_.ledger.current();
    cost.step = now() - start;
    start = now();
    optimizer_->finish(rank_);
    cost.late_step = now() - start;
    if (rank_.config.validate_steps == StepValidation::after) step_in_two_halves(cost);
    return cost;
  }

 private:
  /// As LateStep steps.
  void step_in_two_halves(PartCost& cost) {
    double start = now();
    (void)optimizer_->squared_norm_of_stage(rank_);
    cost.norm = now() - start;
    start = now();
    optimizer_->write_ahead(rank_, options_, {block_, block_});
    cost.ahead = now() - start;
    start = now();
    optimizer_->update(rank_, options_, 0, {block_, block_}, false);
    cost.validated_step = now() - start;
  }

  double now() {
    rank_.device.synchronize();
    return rank_.device.now();
  }

  Tensor hidden() {  // [s/t, b, h]
    const RunConfig& c = rank_.config;
    return rank_.allocate({parallel::local_sequence(rank_), c.micro_batch, c.model.hidden},
                          Kind::communication);
  }

  /// As StageExecutor passes a microbatch through a part.
  void pass_through(PartCost& cost, bool splits) {
    const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
    const int64_t before = rank_.ledger.current();
    const auto observe = [&](double& seconds, int64_t& peak, int64_t& left, const auto& pass) {
      rank_.ledger.reset_peaks();
      const double start = now();
      pass();
      seconds = now() - start;
      peak = rank_.ledger.peak() - before;
      left = rank_.ledger.current() - before;
    };
    Gpt::Saved saved;
    Deferred deferred;
    int64_t nothing = 0;
    observe(cost.forward, cost.forward_peak, cost.kept, [&] { forward(saved, total); });
    if (!splits) {
      observe(cost.backward, cost.backward_peak, nothing,
              [&] { backward(std::move(saved), nullptr); });
      return;
    }
    observe(cost.input_backward, cost.input_backward_peak, cost.owed,
            [&] { backward(std::move(saved), &deferred); });
    observe(cost.weight_backward, cost.weight_backward_peak, nothing, [&] {
      for (const auto& compute : deferred) compute(Pass(rank_));
      deferred.clear();
    });
  }

  /// As StageExecutor makes a microbatch's forward pass together with another's backward pass.
  void pass_together(PartCost& cost) {
    const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
    Gpt::Saved before, saved;
    forward(before, total);
    const int64_t held = rank_.ledger.current();
    rank_.ledger.reset_peaks();
    const double start = now();
    Interleaving::run([&](Interleaving& other) { forward(saved, total, &other); },
                      [&](Interleaving& other) { backward(std::move(before), nullptr, &other); });
    cost.hidden = cost.forward + cost.backward - (now() - start);
    cost.together_peak = rank_.ledger.peak() - held;
    backward(std::move(saved), nullptr);
  }

  /// Whose weights are gathered, where replicas divide them.
  Pass gathering(std::optional<GatheredWeights>& gathered, Interleaving* beside) const {
    Pass pass(rank_);
    pass.beside = beside;
    if (rank_.config.shards(Shard::weights)) pass.weights = &gathered.emplace(block_);
    return pass;
  }

  void forward(Gpt::Saved& saved, const Tensor& total, Interleaving* beside = nullptr) {
    std::optional<GatheredWeights> gathered;
    const Pass pass = gathering(gathered, beside);
    Gpt::Input input;
    input.scale = 1;
    if (!part_.first) input.hidden = hidden();
    if (part_.first) input.tokens = local_integers(rank_, {});
    if (part_.last) input.labels = local_integers(rank_, {});
    rank_.device.begin_pass(true);
    const Tensor y = model_->forward(pass, input, saved);
    if (part_.last) rank_.run(Sum{y, total});
  }

  void backward(Gpt::Saved saved, Deferred* deferred, Interleaving* beside = nullptr) {
    std::optional<GatheredWeights> gathered;
    Pass pass = gathering(gathered, beside);
    pass.deferred = deferred;
    GradientReduction reduction(
        [this](const RankAt& at, const ParameterUnit& unit, const Tensor& part) {
          optimizer_->add_gradients(at, unit, part, true);
        },
        [this](const ParameterUnit& unit) { return optimizer_->has_gradients(unit); });
    const OnGradients add = [&](const Pass& at, const ParameterList& complete) {
      reduction.add(at, complete);
    };
    if (rank_.config.reduces_in_backward()) pass.on_gradients = &add;
    Tensor dy = part_.last ? Tensor() : hidden();
    (void)model_->backward(pass, std::move(dy), 1, std::move(saved));
    reduction.finish(pass);
  }

  Rank& rank_;
  const OptimizerOptions options_;
  const ModelPart part_;
  const bool together_;
  std::unique_ptr<Gpt> model_;
  Tensor block_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// From how many layers on each one more costs the same.
int64_t enough_layers(const RunConfig& run) {
  if (run.recompute_layers > 0 || run.recompute_group > 1) return run.model.layers;
  return run.reduces_in_backward() ? 4 : 2;
}

}  // namespace

double least_passes(const ScheduleKind& kind, const PartCost& part) {
  const double split = part.input_backward + part.weight_backward;
  const double backward = kind.splits_backward ? std::min(part.backward, split) : part.backward;
  return part.forward + backward - std::max(part.hidden, 0.0);
}

PartCost plus(const PartCost& a, int64_t n, const PartCost& b) {
  PartCost sum = a;
  for (const auto seconds :
       {&PartCost::forward, &PartCost::backward, &PartCost::input_backward,
        &PartCost::weight_backward, &PartCost::hidden, &PartCost::sums, &PartCost::step,
        &PartCost::norm, &PartCost::ahead, &PartCost::validated_step, &PartCost::late_step,
        &PartCost::other_version})
    sum.*seconds += static_cast<double>(n) * (b.*seconds);
  for (const auto bytes :
       {&PartCost::weights, &PartCost::gradients, &PartCost::fixed, &PartCost::kept,
        &PartCost::owed, &PartCost::forward_peak, &PartCost::backward_peak,
        &PartCost::input_backward_peak, &PartCost::weight_backward_peak, &PartCost::together_peak})
    sum.*bytes += n * (b.*bytes);
  return sum;
}

PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part) {
  RunConfig alone = run;
  alone.model.layers = part.layers;
  alone.pipeline_parallel = alone.chunks = 1;
  alone.stage_layers = {};
  if (run.schedule.flushes)
    alone.schedule = run.schedule.splits_backward ? ScheduleKind::zero_bubble_h1
                                                  : ScheduleKind::one_forward_one_backward;
  if (run.shard == Shard::none) alone.data_parallel = 1;
  alone.microbatches = 1;
  const auto cluster = make_virtual_cluster(alone, machine);
  const bool together = run.schedule.makes_together && run.overlaps_passes();
  PartCost cost;
  cluster->run([&](Rank& rank) { cost = PartRun(rank, optimizer, part, together).run(); });
  return cost;
}

PartCosts::PartCosts(const RunConfig& run, const OptimizerOptions& optimizer,
                     const Machine& machine)
    : run_(run),
      optimizer_(optimizer),
      machine_(machine),
      kinds_(run.model.window > 0 ? run.model.window_period : 1),
      most_(enough_layers(run)),
      hidden_state_(run.local_sequence() * run.micro_batch * run.model.hidden *
                    static_cast<int64_t>(size_of(run.type))) {
  machine_.memory_capacity = std::numeric_limits<int64_t>::max();
}

const PartCost& PartCosts::executed(ModelPart part) const {
  part.first_layer %= kinds_;
  const std::tuple key{part.first_layer, part.layers, part.first, part.last};
  const auto found = executed_.find(key);
  if (found != executed_.end()) return found->second;
  return executed_.emplace(key, execute_part(run_, optimizer_, machine_, part)).first->second;
}

PartCost PartCosts::next(int64_t layer) const {
  return plus(executed({layer, most_, false, false}), -1,
              executed({layer, most_ - 1, false, false}));
}

PartCost PartCosts::of(const ModelPart& part) const {
  const int64_t more = std::max<int64_t>(part.layers - most_, 0);
  PartCost cost = executed({part.first_layer, part.layers - more, part.first, part.last});
  for (int64_t i = 0; i < std::min(kinds_, more); ++i)  // those of a kind together
    cost = plus(cost, (more - 1 - i) / kinds_ + 1, next(part.first_layer + i + 1));
  if (more > 0 && (part.first || part.last)) correct_peaks(part, cost);
  return cost;
}

void PartCosts::correct_peaks(const ModelPart& part, PartCost& cost) const {
  const auto few = [&](int64_t layers, bool first, bool last) -> const PartCost& {
    return executed({part.first_layer, layers, first, last});
  };
  const int64_t more = part.layers - most_;
  const PartCost layers = of({part.first_layer, part.layers, false, false});
  const PartCost layer = next(part.first_layer);
  // What the ends hold while layers compute.
  const PartCost& none = few(most_, false, false);
  const PartCost& all = few(most_, part.first, part.last);
  const PartCost& fewer = few(most_ - 1, part.first, part.last);
  const int64_t kept = few(most_, part.first, false).kept - none.kept;
  const int64_t owed = few(most_, false, part.last).owed - none.owed;
  for (const auto& [peak, held] : {std::pair{&PartCost::forward_peak, kept},
                                   {&PartCost::backward_peak, kept},
                                   {&PartCost::input_backward_peak, kept + owed},
                                   {&PartCost::weight_backward_peak, all.owed - none.owed}}) {
    const int64_t growth = all.*peak - fewer.*peak;
    if (growth >= layer.*peak) continue;
    cost.*peak = std::max(all.*peak + more * growth, layers.*peak + held + hidden_state_);
  }
}

}  // namespace frugal::engine
