#include "engine/plan/part_cost.h"

#include <algorithm>
#include <functional>
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

/// A part on one rank, or those of the chunks of a stage, and the moments between what they do.
class PartRun {
  using Models = std::vector<std::unique_ptr<Gpt>>;

 public:
  PartRun(Rank& rank, const OptimizerOptions& options, const std::vector<ModelPart>& parts)
      : rank_(rank), options_(options) {
    auto [models, block] = in_one_block(rank, [&] {
      Models all;
      for (const ModelPart& part : parts)
        all.push_back(std::make_unique<Gpt>(rank, part, all.empty() ? nullptr : all.front().get()));
      return all;
    });
    models_ = std::move(models);
    block_ = std::move(block);
    ParameterList parameters;
    for (const auto& model : models_) parameters = join({parameters, model->parameters()});
    optimizer_ = std::make_unique<Optimizer>(rank, parameters, options, block_);
  }

  PartCost run() {
    PartCost cost;
    cost.weights = block_.view().bytes();
    cost.gradients = rank_.ledger.current(Kind::gradient);
    pass_through(cost, false);
    if (rank_.config.schedule.splits_backward) pass_through(cost, true);
    double start = now();
    copy_out(rank_, block_);
    cost.other_version = now() - start;
    start = now();
    optimizer_->sum_gradients(rank_, options_);
    cost.sums = now() - start;
    start = now();
    (void)optimizer_->step_with_sums(rank_, options_, {block_, block_});
    if (rank_.config.schedule.delay > 0) copy_versions(rank_, models_.front()->parameters());
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

  /// As StageExecutor makes a microbatch's forward pass through a chunk together with another's
  /// backward pass through the other one. What both have made stays until both have ended.
  PairCost run_together(size_t forward_chunk) {
    Gpt& ahead = *models_[forward_chunk];
    Gpt& back = *models_[1 - forward_chunk];
    const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
    Gpt::Saved before, saved;
    Tensor y, dx;
    (void)forward(back, before, total);
    const int64_t held = rank_.ledger.current();
    rank_.ledger.reset_peaks();
    const double start = now();
    Interleaving::run(
        [&](Interleaving& other) { y = forward(ahead, saved, total, &other); },
        [&](Interleaving& other) { dx = backward(back, std::move(before), nullptr, &other); });
    const PairCost cost{now() - start, rank_.ledger.peak() - held};
    (void)backward(ahead, std::move(saved), nullptr);
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
    Gpt& model = *models_.front();
    Gpt::Saved saved;
    Deferred deferred;
    int64_t nothing = 0;
    observe(cost.forward, cost.forward_peak, cost.kept,
            [&] { (void)forward(model, saved, total); });
    if (!splits) {
      observe(cost.backward, cost.backward_peak, nothing,
              [&] { (void)backward(model, std::move(saved), nullptr); });
      return;
    }
    observe(cost.input_backward, cost.input_backward_peak, cost.owed,
            [&] { (void)backward(model, std::move(saved), &deferred); });
    observe(cost.weight_backward, cost.weight_backward_peak, nothing, [&] {
      for (const auto& compute : deferred) compute(Pass(rank_));
      deferred.clear();
    });
  }

  /// Whose weights are gathered, where replicas divide them.
  Pass gathering(std::optional<GatheredWeights>& gathered, Interleaving* beside) const {
    Pass pass(rank_);
    pass.beside = beside;
    if (rank_.config.shards(Shard::weights)) pass.weights = &gathered.emplace(block_);
    return pass;
  }

  /// What it gives to the next part; nothing of the last one.
  Tensor forward(Gpt& model, Gpt::Saved& saved, const Tensor& total,
                 Interleaving* beside = nullptr) {
    const ModelPart& part = model.part();
    std::optional<GatheredWeights> gathered;
    const Pass pass = gathering(gathered, beside);
    Gpt::Input input;
    input.scale = 1;
    if (!part.first) input.hidden = hidden();
    if (part.first) input.tokens = local_integers(rank_, {});
    if (part.last) input.labels = local_integers(rank_, {});
    rank_.device.begin_pass(true);
    Tensor y = model.forward(pass, input, saved);
    if (!part.last) return y;
    rank_.run(Sum{y, total});
    return {};
  }

  /// The gradient of what it was given; nothing of the first part.
  Tensor backward(Gpt& model, Gpt::Saved saved, Deferred* deferred,
                  Interleaving* beside = nullptr) {
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
    Tensor dy = model.part().last ? Tensor() : hidden();
    Tensor dx = model.backward(pass, std::move(dy), 1, std::move(saved));
    reduction.finish(pass);
    return dx;
  }

  Rank& rank_;
  const OptimizerOptions options_;
  Models models_;
  Tensor block_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// A rank of the tensor-parallel group, and of replicas where they divide something, that computes
/// so many layers.
void on_one_rank(const RunConfig& run, const Machine& machine, int64_t layers,
                 const std::function<void(Rank&)>& body) {
  RunConfig alone = run;
  alone.model.layers = layers;
  alone.pipeline_parallel = alone.chunks = 1;
  alone.stage_layers = {};
  if (run.schedule.flushes)
    alone.schedule = run.schedule.splits_backward ? ScheduleKind::zero_bubble_h1
                                                  : ScheduleKind::one_forward_one_backward;
  if (run.shard == Shard::none) alone.data_parallel = 1;
  alone.microbatches = 1;
  make_virtual_cluster(alone, machine)->run(body);
}

/// From how many layers on each one more costs the same.
int64_t enough_layers(const RunConfig& run) {
  if (run.recompute_layers > 0 || run.recompute_group > 1) return run.model.layers;
  return run.reduces_in_backward() ? 4 : 2;
}

}  // namespace

double least_passes(const ScheduleKind& kind, const PartCost& part) {
  const double split = part.input_backward + part.weight_backward;
  const double backward = kind.splits_backward ? std::min(part.backward, split) : part.backward;
  return part.forward + backward;
}

PartCost plus(const PartCost& a, int64_t n, const PartCost& b) {
  PartCost sum = a;
  for (const auto seconds : {&PartCost::forward, &PartCost::backward, &PartCost::input_backward,
                             &PartCost::weight_backward, &PartCost::sums, &PartCost::step,
                             &PartCost::norm, &PartCost::ahead, &PartCost::validated_step,
                             &PartCost::late_step, &PartCost::other_version})
    sum.*seconds += static_cast<double>(n) * (b.*seconds);
  for (const auto bytes :
       {&PartCost::weights, &PartCost::gradients, &PartCost::fixed, &PartCost::kept,
        &PartCost::owed, &PartCost::forward_peak, &PartCost::backward_peak,
        &PartCost::input_backward_peak, &PartCost::weight_backward_peak})
    sum.*bytes += n * (b.*bytes);
  return sum;
}

PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part) {
  PartCost cost;
  on_one_rank(run, machine, part.layers,
              [&](Rank& rank) { cost = PartRun(rank, optimizer, {part}).run(); });
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

const PairCost& PartCosts::together(const ModelPart& chunk_0, const ModelPart& chunk_1,
                                    int forward_chunk) const {
  std::vector<int64_t> key = {forward_chunk};
  for (const ModelPart& part : {chunk_0, chunk_1})
    key.insert(key.end(),
               {part.first_layer % kinds_, part.layers, part.first ? 1 : 0, part.last ? 1 : 0});
  const auto found = together_.find(key);
  if (found != together_.end()) return found->second;
  PairCost cost;
  on_one_rank(run_, machine_, chunk_0.layers + chunk_1.layers, [&](Rank& rank) {
    cost = PartRun(rank, optimizer_, {chunk_0, chunk_1})
               .run_together(static_cast<size_t>(forward_chunk));
  });
  return together_.emplace(std::move(key), cost).first->second;
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
