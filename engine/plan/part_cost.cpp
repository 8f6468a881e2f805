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
    return cost;
  }

 private:
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

/// How many layers are unlike those behind them.
int64_t unlike_the_next(const RunConfig& run) { return run.reduces_in_backward() ? 3 : 1; }

}  // namespace

PartCost plus(const PartCost& a, int64_t n, const PartCost& b) {
  PartCost sum = a;
  for (const auto seconds : {&PartCost::forward, &PartCost::backward, &PartCost::input_backward,
                             &PartCost::weight_backward, &PartCost::hidden, &PartCost::sums,
                             &PartCost::step, &PartCost::late_step, &PartCost::other_version})
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
    : hidden_state_(run.local_sequence() * run.micro_batch * run.model.hidden *
                    static_cast<int64_t>(size_of(run.type))) {
  Machine endless = machine;
  endless.memory_capacity = std::numeric_limits<int64_t>::max();
  const int64_t kinds = run.model.window > 0 ? run.model.window_period : 1;
  for (int64_t kind = 0; kind < kinds; ++kind) {
    Kind& cost = kinds_.emplace_back();
    for (int64_t layers = 1; layers <= unlike_the_next(run) + 1; ++layers) {
      Ends& ends = cost.few.emplace_back();
      for (const bool first : {false, true})
        for (const bool last : {false, true})
          ends[first][last] = execute_part(run, optimizer, endless, {kind, layers, first, last});
    }
    cost.next = plus(cost.few.back()[false][false], -1, cost.few.end()[-2][false][false]);
  }
}

PartCost PartCosts::of(const ModelPart& part) const {
  const auto& few = kind_of(part.first_layer).few;
  const auto kinds = static_cast<int64_t>(kinds_.size());
  const int64_t begin = std::min(static_cast<int64_t>(few.size()), part.layers);
  PartCost cost = few[static_cast<size_t>(begin - 1)][part.first][part.last];
  const int64_t more = part.layers - begin;
  for (int64_t i = 0; i < std::min(kinds, more); ++i)  // those of a kind together
    cost = plus(cost, (more - 1 - i) / kinds + 1, kind_of(part.first_layer + i + 1).next);
  if (more > 0 && (part.first || part.last)) correct_peaks(part, cost);
  return cost;
}

void PartCosts::correct_peaks(const ModelPart& part, PartCost& cost) const {
  const Kind& kind = kind_of(part.first_layer);
  const Ends &most = kind.few.back(), &fewer = kind.few.end()[-2];
  const int64_t more = part.layers - static_cast<int64_t>(kind.few.size());
  const PartCost layers = of({part.first_layer, part.layers, false, false});
  // What the ends hold while layers compute.
  const PartCost& none = most[false][false];
  const int64_t kept = most[part.first][false].kept - none.kept;
  const int64_t owed = most[false][part.last].owed - none.owed;
  const int64_t all_owed = most[part.first][part.last].owed - none.owed;
  for (const auto& [peak, held] : {std::pair{&PartCost::forward_peak, kept},
                                   {&PartCost::backward_peak, kept},
                                   {&PartCost::input_backward_peak, kept + owed},
                                   {&PartCost::weight_backward_peak, all_owed}}) {
    const int64_t now = most[part.first][part.last].*peak;
    const int64_t growth = now - fewer[part.first][part.last].*peak;
    if (growth >= kind.next.*peak) continue;
    cost.*peak = std::max(now + more * growth, layers.*peak + held + hidden_state_);
  }
}

}  // namespace frugal::engine
