#include "engine/plan/part_cost.h"

#include <algorithm>
#include <limits>

#include "engine/cluster.h"
#include "engine/comm/parallel.h"
#include "engine/model/gpt.h"
#include "engine/train/host_tensor.h"
#include "engine/train/one_block.h"
#include "engine/train/weight_versions.h"

namespace frugal::engine {
namespace {

/// One part on one rank, and the moments between what it does.
class PartRun {
 public:
  PartRun(Rank& rank, const OptimizerOptions& options, const ModelPart& part)
      : rank_(rank), options_(options), part_(part) {
    auto [model, block] = in_one_block(rank, [&] { return std::make_unique<Gpt>(rank, part); });
    model_ = std::move(model);
    block_ = std::move(block);
    optimizer_ = std::make_unique<Optimizer>(rank, model_->parameters(), options);
  }

  PartCost run() {
    PartCost cost;
    cost.weights = block_.view().bytes();
    cost.gradients = rank_.ledger.current(Kind::gradient);
    pass_through(cost);
    double start = now();
    copy_out(rank_, block_);
    cost.other_version = now() - start;
    start = now();
    (void)optimizer_->step(rank_, options_);
    if (rank_.config.schedule.delay > 0) copy_versions(rank_, model_->parameters());
    optimizer_->clear_gradients(rank_);
    // A tied table's gradient that is on its way stays in memory until the next step.
    cost.fixed = rank_.ledger.current();
    optimizer_->finish(rank_);
    cost.step = now() - start;
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
  void pass_through(PartCost& cost) {
    const Pass pass(rank_);
    const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
    const int64_t before = rank_.ledger.current();
    rank_.ledger.reset_peaks();
    double start = now();
    Gpt::Saved saved;
    {
      Gpt::Input input;
      input.scale = 1;
      if (!part_.first) input.hidden = hidden();
      if (part_.first) input.tokens = local_integers(rank_, {});
      if (part_.last) input.labels = local_integers(rank_, {});
      const Tensor y = model_->forward(pass, input, saved);
      if (part_.last) rank_.run(Sum{y, total});
    }
    cost.forward = now() - start;
    cost.kept = rank_.ledger.current() - before;
    cost.forward_peak = rank_.ledger.peak() - before;

    rank_.ledger.reset_peaks();
    start = now();
    Tensor dy = part_.last ? Tensor() : hidden();
    (void)model_->backward(pass, std::move(dy), 1, std::move(saved));
    cost.backward = now() - start;
    cost.backward_peak = rank_.ledger.peak() - before;
  }

  Rank& rank_;
  const OptimizerOptions options_;
  const ModelPart part_;
  std::unique_ptr<Gpt> model_;
  Tensor block_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// a + n · b, member by member.
PartCost plus(const PartCost& a, int64_t n, const PartCost& b) {
  PartCost sum = a;
  for (const auto seconds :
       {&PartCost::forward, &PartCost::backward, &PartCost::step, &PartCost::other_version})
    sum.*seconds += static_cast<double>(n) * (b.*seconds);
  for (const auto bytes : {&PartCost::weights, &PartCost::gradients, &PartCost::fixed,
                           &PartCost::kept, &PartCost::forward_peak, &PartCost::backward_peak})
    sum.*bytes += n * (b.*bytes);
  return sum;
}

}  // namespace

PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part) {
  RunConfig alone = run;
  alone.model.layers = part.layers;
  alone.pipeline_parallel = alone.data_parallel = 1;
  alone.microbatches = 1;
  Machine endless = machine;
  endless.memory_capacity = std::numeric_limits<int64_t>::max();
  const auto cluster = make_virtual_cluster(alone, endless);
  PartCost cost;
  cluster->run([&](Rank& rank) { cost = PartRun(rank, optimizer, part).run(); });
  return cost;
}

PartCosts::PartCosts(const RunConfig& run, const OptimizerOptions& optimizer,
                     const Machine& machine) {
  const int64_t kinds = run.model.window > 0 ? run.model.window_period : 1;
  for (int64_t kind = 0; kind < kinds; ++kind) {
    const auto execute = [&](int64_t layers, bool first, bool last) {
      return execute_part(run, optimizer, machine, {kind, layers, first, last});
    };
    Kind& cost = kinds_.emplace_back();
    for (const bool first : {false, true})
      for (const bool last : {false, true}) cost.one[first][last] = execute(1, first, last);
    cost.next = plus(execute(2, false, false), -1, cost.one[false][false]);
  }
}

PartCost PartCosts::of(const ModelPart& part) const {
  const auto kinds = static_cast<int64_t>(kinds_.size());
  const auto kind_of = [&](int64_t layer) -> const Kind& {
    return kinds_[static_cast<size_t>(layer % kinds)];
  };
  PartCost cost = kind_of(part.first_layer).one[part.first][part.last];
  for (int64_t i = 0; i < std::min(kinds, part.layers - 1); ++i)  // those of a kind together
    cost = plus(cost, (part.layers - 2 - i) / kinds + 1, kind_of(part.first_layer + i).next);
  return cost;
}

}  // namespace frugal::engine
