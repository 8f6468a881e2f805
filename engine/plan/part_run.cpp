#include "engine/plan/part_run.h"

#include <algorithm>
#include <utility>

#include "engine/data/single_batch.h"
#include "engine/model/parallel.h"

namespace frugal::engine {
namespace {

/// Longer than any pass, and than a host takes for all of them: seconds.
constexpr double long_enough = 4096;

}  // namespace

PartRun::PartRun(Rank& rank, const OptimizerOptions& options, const std::vector<ModelPart>& parts,
                 double launch)
    : rank_(rank), options_(options), launch_(launch) {
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

PartCost PartRun::run(bool turns) {
  const RunConfig& config = rank_.config;
  turns_ = turns;
  const PartCost cold =
      config.program.device.messages.kind == Messages::beside ? PartCost() : wait();
  const PartCost late = config.offload ? copy_before_passes() : PartCost();
  PartCost cost;
  run_ahead();
  cost.weights = block_.view().bytes();
  cost.gradients = rank_.ledger.current(Kind::gradient);
  // Of two microbatches in flight the one has left for the host when the other leaves.
  if (config.offload && !turns) begin_another();
  pass_through(cost, false);
  // What goes on beside the next passes has now begun beside these.
  if (config.shard != Shard::none || config.offload) pass_through(cost, false);
  if (config.schedule.splits_backward) pass_through(cost, true);
  for (const auto pass : all_passes) {
    PassCost& of = cost.*pass;
    of.lead = std::max(0.0, (cold.*pass).seconds - of.seconds);
    if (config.offload) of.grace = (late.*pass).grace + of.seconds - (late.*pass).seconds;
  }
  in_flight_.clear();
  if (config.program.device.host_waits_around_passes) run_ahead();
  const double given = of_host(), start = sums_begin(cost);
  optimizer_->sum_gradients(options_);
  cost.sums = end() - start;
  const double summed = of_host() - given;
  cost.step = seconds_of([&] {
    (void)optimizer_->step_with_sums(options_, {block_, block_});
    if (config.schedule.delay > 0) copy_versions(rank_, models_.front()->parameters());
    optimizer_->clear_gradients();
    // A tied table's gradient that is on its way stays in memory until the next step.
    cost.fixed = rank_.ledger.current();
    cost.fixed_on_host = rank_.host.current();
  });
  cost.host_of_step = of_host() - given;
  cost.late_step = seconds_of([&] { optimizer_->finish(rank_); });
  cost.other_version = seconds_of([&] { copy_out(rank_, block_); });
  if (config.validate_steps != StepValidation::after) return cost;
  const double before_halves = of_host();
  step_in_two_halves(cost);
  cost.host_of_step = summed + of_host() - before_halves;
  return cost;
}

PairCost PartRun::run_together(size_t forward_chunk) {
  if (!rank_.config.offload) return make_together(forward_chunk);
  copies_ = true;
  const PassCost late = make_together(forward_chunk).pass;
  copies_ = false;
  rank_.offload.sources.clear();
  PairCost cost = make_together(forward_chunk);
  cost.pass.grace = late.grace + cost.pass.seconds - late.seconds;
  return cost;
}

PairCost PartRun::make_together(size_t forward_chunk) {
  Gpt& ahead = *models_[forward_chunk];
  Gpt& back = *models_[1 - forward_chunk];
  const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
  run_ahead();
  PairCost cost;
  Gpt::Saved before, saved;
  Tensor y, dx;
  (void)forward(back, before, total);
  const int64_t before_both = held(), on_host = rank_.host.current();
  rank_.ledger.reset_peaks();
  rank_.host.reset_peaks();
  observe(cost.pass, [&] {
    Interleaving::run(
        [&](Interleaving& other) { y = forward(ahead, saved, total, &other); },
        [&](Interleaving& other) { dx = backward(back, std::move(before), nullptr, &other); });
  });
  cost.peak = rank_.ledger.peak() - before_both;
  cost.on_host = rank_.host.peak() - on_host;
  (void)backward(ahead, std::move(saved), nullptr);
  return cost;
}

void PartRun::run_ahead() {
  rank_.device.synchronize();
  rank_.device.occupy(Stream::compute, long_enough, "host");
  const Event ahead = rank_.device.record(Stream::compute);
  for (const StreamSpec& stream : {streams::tensors, streams::sequences, streams::replicas})
    rank_.device.wait(rank_.device.stream(stream), ahead);
}

PartCost PartRun::wait() {
  waits_ = true;
  const PartCost cost = all_passes_through();
  waits_ = false;
  return cost;
}

PartCost PartRun::copy_before_passes() {
  run_ahead();
  if (!turns_) begin_another();
  copies_ = true;
  const PartCost late = all_passes_through();
  copies_ = false;
  in_flight_.clear();
  rank_.offload.sources.clear();
  return late;
}

double PartRun::copy_for_long() {
  const Stream to_host = rank_.device.stream(streams::to_host);
  rank_.device.wait(to_host, rank_.device.record(Stream::compute));
  rank_.device.occupy(to_host, long_enough, "copy");
  rank_.offload.end = rank_.device.record(to_host);
  rank_.offload.sources.push_back(block_);
  return rank_.offload.end.time;
}

PartCost PartRun::all_passes_through() {
  PartCost cost;
  pass_through(cost, false);
  if (rank_.config.schedule.splits_backward) pass_through(cost, true);
  return cost;
}

void PartRun::begin_another() {
  const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
  (void)forward(*models_.front(), in_flight_.emplace_back(), total);
}

double PartRun::sums_begin(const PartCost& cost) {
  const RunConfig& config = rank_.config;
  const double begin = passes_end();
  if (config.shard_size == 0 || !config.reduces_in_backward()) return begin;
  PartCost last;
  last_ = true;
  pass_through(last, false);
  return begin + cost.forward.seconds + cost.backward.seconds;
}

template <class Make>
void PartRun::observe(PassCost& pass, const Make& make) {
  if (waits_) rank_.device.synchronize();
  const Stream to_host = rank_.device.stream(streams::to_host);
  // Copies of the pass before are over.
  rank_.device.wait(Stream::compute, rank_.device.record(to_host));
  const double start = waits_ ? end() : passes_end(), given = of_host();
  if (copies_) pass.grace = copy_for_long() - start;
  make();
  pass.seconds = passes_end() - start;
  pass.copies = std::max(0.0, rank_.device.record(to_host).time - passes_end());
  pass.host = of_host() - given;
}

void PartRun::pass_through(PartCost& cost, bool splits) {
  const Tensor total = rank_.allocate(DType::f64, {1}, Kind::statistics);
  int64_t before = held();
  const auto observe = [&](PassCost& pass, int64_t& peak, int64_t& left, const auto& make) {
    rank_.ledger.reset_peaks();
    this->observe(pass, [&] {
      rank_.device.begin_pass(&pass == &cost.forward);
      make();
      rank_.device.end_pass();
    });
    peak = std::max(peak, rank_.ledger.peak() - before);
    left = held() - before;
  };
  Gpt& model = *models_.front();
  Deferred deferred;
  int64_t nothing = 0;
  Gpt::Saved& newest = in_flight_.emplace_back();
  const int64_t on_host = rank_.host.current();
  observe(cost.forward, cost.forward_peak, cost.kept, [&] { (void)forward(model, newest, total); });
  cost.kept_on_host = rank_.host.current() - on_host;
  before = held() - cost.kept;
  Gpt::Saved saved = std::move(in_flight_.front());
  in_flight_.pop_front();
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

void PartRun::step_in_two_halves(PartCost& cost) {
  cost.norm = seconds_of([&] { (void)optimizer_->update().squared_norm_of_stage(); });
  cost.ahead = seconds_of([&] { optimizer_->update().write_ahead(options_, {block_, block_}); });
  cost.validated_step = seconds_of([&] {
    optimizer_->update().apply(options_, {}, {block_, block_}, false);
    optimizer_->clear_gradients();
  });
}

int64_t PartRun::held() const {
  int64_t leaving = 0;
  for (const Tensor& source : rank_.offload.sources) leaving += source.view().bytes();
  return rank_.ledger.current() - leaving;
}

double PartRun::of_host() const { return launch_ * rank_.device.work().calls.launches; }

Pass PartRun::gathering(std::optional<GatheredWeights>& gathered, Interleaving* beside) const {
  Pass pass(rank_);
  pass.beside = beside;
  if (rank_.config.shards(Shard::weights)) pass.weights = &gathered.emplace(block_);
  return pass;
}

Tensor PartRun::hidden() {
  const RunConfig& c = rank_.config;
  return rank_.allocate({parallel::local_sequence(rank_), c.micro_batch, c.model.hidden},
                        Kind::communication);
}

Tensor PartRun::forward(Gpt& model, Gpt::Saved& saved, const Tensor& total, Interleaving* beside) {
  const ModelPart& part = model.part();
  std::optional<GatheredWeights> gathered;
  const Pass pass = gathering(gathered, beside);
  Gpt::Input input;
  input.scale = 1;
  input.turns = turns_;
  if (!part.first) input.hidden = hidden();
  if (part.first) input.tokens = local_integers(rank_, {});
  if (part.last) input.labels = local_integers(rank_, {});
  Tensor y = model.forward(pass, input, saved);
  if (!part.last) return y;
  rank_.run(Sum{y, total});
  return {};
}

Tensor PartRun::backward(Gpt& model, Gpt::Saved saved, Deferred* deferred, Interleaving* beside) {
  std::optional<GatheredWeights> gathered;
  Pass pass = gathering(gathered, beside);
  pass.deferred = deferred;
  BackwardReduction reduction(*optimizer_, last_);
  const OnGradients add = [&](const Pass& at, const ParameterList& complete) {
    reduction.add(at, complete);
  };
  if (rank_.config.reduces_in_backward()) pass.on_gradients = &add;
  Tensor dy = model.part().last ? Tensor() : hidden();
  Tensor dx = model.backward(pass, std::move(dy), 1, std::move(saved));
  reduction.finish(pass);
  return dx;
}

}  // namespace frugal::engine
