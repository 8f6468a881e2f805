#include "engine/plan/part_cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "engine/cluster/cluster.h"
#include "engine/model/parallel.h"
#include "engine/optimizer/flat_parameters.h"
#include "engine/schedule/passes.h"
#include "engine/train/stage_executor.h"

namespace frugal::engine {
namespace {

/// Longer than any pass, and than a host takes for all of them: seconds.
constexpr double long_enough = 4096;

/// A part of a model on one virtual rank, or those of a stage's chunks: the executor's StagePasses
/// are made without neighbours, and each is observed.
///
/// The host is ahead of the device, as in a whole run: a pass begins when the one before it ends,
/// and what goes on beside passes goes on beside the next one.
class PartExecution {
 public:
  PartExecution(Rank& rank, const OptimizerOptions& options, const std::vector<ModelPart>& parts)
      : rank_(rank), options_(options), chunks_(static_cast<int>(parts.size())) {
    auto [model, block] =
        in_one_block(rank, [&] { return std::make_unique<StageModel>(rank, parts); });
    model_ = std::move(model);
    block_ = std::move(block);
    weights_ = std::make_unique<WeightVersions>(
        rank.config.shards(Shard::weights) ? ParameterList() : model_->parameters(), block_);
    optimizer_ = std::make_unique<Optimizer>(rank, model_->parameters(), options, block_);
  }

  /// Costs of passes and of a step. `turns`: of microbatches whose backward pass is the next one
  /// behind their forward pass.
  PartCost run(bool turns) {
    const RunConfig& config = rank_.config;
    // Of two microbatches in flight the one has left for the host when the other leaves.
    const int ahead = config.offload && !turns ? 1 : 0;
    PartCost cold, late, cost;
    if (config.program.device.messages.kind != Messages::beside)
      execute(Before::host_waits, order(0, 1), cold);
    if (config.offload) execute(Before::long_copy, order(ahead, 1), late);
    cost.weights = block_.view().bytes();
    cost.gradients = rank_.ledger.current(Kind::gradient);
    // What goes on beside the next passes has begun beside the first ones.
    const int times = config.shard != Shard::none || config.offload ? 2 : 1;
    Passes passes = order(ahead, times);
    // The last backward pass sums a divided part over its replicas.
    const bool sums = config.shard_size > 0 && config.reduces_in_backward();
    if (sums) passes.forward(last_pass).backward(last_pass);
    execute(Before::nothing, passes, cost);
    if (!sums) begin_sums();
    for (const auto pass : all_passes) {
      PassCost& of = cost.*pass;
      of.lead = std::max(0.0, (cold.*pass).seconds - of.seconds);
      if (config.offload) of.grace = (late.*pass).grace + of.seconds - (late.*pass).seconds;
    }
    add_step(cost, sums ? cost.forward.seconds + cost.backward.seconds : 0);
    return cost;
  }

  /// Cost of a forward pass through a chunk, made together with another microbatch's backward pass
  /// through the other chunk. What both have made stays until both have ended.
  PairCost run_together(int forward_chunk) {
    Passes passes;
    passes.forward(0, 1 - forward_chunk).forward(1, forward_chunk).beside();
    passes.backward(0, 1 - forward_chunk);
    PartCost nothing;
    if (!rank_.config.offload) {
      execute(Before::nothing, passes, nothing);
      return pair_;
    }
    passes.backward(1, forward_chunk);
    execute(Before::long_copy, passes, nothing);
    const PassCost late = pair_.pass;
    execute(Before::nothing, passes, nothing);
    pair_.pass.grace = late.grace + pair_.pass.seconds - late.seconds;
    return pair_;
  }

 private:
  /// Delay before each pass: none, a host that waits until the device has nothing to do, or a
  /// copy to the host that goes on for long.
  enum class Before : uint8_t { nothing, host_waits, long_copy };
  static constexpr int last_pass = 9;  ///< its microbatch

  /// Passes of so many microbatches, one behind the other, and of another one with split backward
  /// passes where the schedule has them. Behind each forward pass, `ahead` more are in flight.
  Passes order(int ahead, int times) const {
    Passes passes;
    if (ahead > 0) passes.forward(0);
    for (int k = 0; k < times; ++k) passes.forward(ahead + k).backward(k);
    if (rank_.config.schedule.splits_backward)
      passes.forward(ahead + times).input_backward(times).weight_backward(times);
    return passes;
  }

  void execute(Before before, const Passes& order, PartCost& cost) {
    // Other parts are on other stages.
    Schedule schedule{.stages = 2,
                      .chunks = chunks_,
                      .microbatches = last_pass + 1,
                      .actions = {order.actions()}};
    const std::vector<Batch> batches(
        1, Batch(static_cast<size_t>(schedule.microbatches * (rank_.replica() + 1))));
    const ScheduleRun run{
        .schedule = schedule, .batches = batches, .scales = {1}, .memorizes = false};
    StagePasses passes(rank_, *model_, *weights_, *optimizer_, run);
    Actions& actions = schedule.actions.front();
    for (Action& pass : actions) pass.version = 0;
    if (before != Before::host_waits) run_ahead();
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action& pass = actions[i];
      std::vector<const Action*> made = {&pass};
      if (pass.beside_next) made.push_back(&actions[++i]);
      const auto make = [&] { make_alone(passes, made, turns_at(actions, i)); };
      if (pass.microbatch == last_pass && pass.kind == ActionKind::forward) begin_sums();
      if (pass.microbatch == last_pass || (chunks_ > 1 && !pass.beside_next)) {
        make();
        continue;
      }
      const PassCost seen = observe(before, pass, make);
      (pass.beside_next ? pair_.pass : cost.*all_passes[static_cast<size_t>(pass.kind)]) = seen;
      add_bytes(pass, cost);
    }
    passes.drop_flights();
    if (before == Before::long_copy) rank_.offload.sources.clear();
  }

  /// Makes a pass, or two together, of which neighbours have sent the operands and take the
  /// results.
  void make_alone(StagePasses& passes, const std::vector<const Action*>& made, bool turns) {
    for (const Action* action : made) {
      Flight& flight = passes.flight(*action);
      const ModelPart& part = model_->part(action->chunk).part();
      const bool forward = action->kind == ActionKind::forward;
      if (forward) flight.turns = turns;
      flight.last = action->microbatch == last_pass;
      if (action->kind == ActionKind::weight_backward || (forward ? part.first : part.last))
        continue;
      const RunConfig& c = rank_.config;
      (forward ? flight.activation : flight.gradient).tensor = rank_.allocate(
          {parallel::local_sequence(rank_), c.micro_batch, c.model.hidden}, Kind::workspace);
    }
    passes.make(made);
    for (const Action* action : made) {
      Flight& flight = passes.flight(*action);
      flight.output.release();
      flight.input_gradient.release();
      passes.end(*action);
    }
  }

  template <class Make>
  PassCost observe(Before before, const Action& action, const Make& make) {
    if (action.kind == ActionKind::forward) {
      held_ = held();
      on_host_ = rank_.host.current();
    }
    rank_.ledger.reset_peaks();
    rank_.host.reset_peaks();
    if (before == Before::host_waits) rank_.device.synchronize();
    const Stream to_host = rank_.device.stream(streams::to_host);
    // Copies of the pass before are over.
    rank_.device.wait(Stream::compute, rank_.device.record(to_host));
    PassCost pass;
    const double start = before == Before::host_waits ? end() : passes_end(), given = of_host();
    if (before == Before::long_copy) pass.grace = copy_for_long() - start;
    make();
    pass.seconds = passes_end() - start;
    pass.copies = std::max(0.0, rank_.device.record(to_host).time - passes_end());
    pass.host = of_host() - given;
    return pass;
  }

  /// Adds bytes above those that were held before the microbatch's forward pass.
  void add_bytes(const Action& action, PartCost& cost) {
    const int64_t peak = rank_.ledger.peak() - held_, left = held() - held_;
    const auto add = [&](int64_t& highest) { highest = std::max(highest, peak); };
    switch (action.kind) {
      case ActionKind::forward:
        pair_.peak = peak;
        pair_.on_host = rank_.host.peak() - on_host_;
        add(cost.forward_peak);
        cost.kept = left;
        cost.kept_on_host = rank_.host.current() - on_host_;
        break;
      case ActionKind::input_backward:
        add(cost.input_backward_peak);
        cost.owed = left;
        break;
      case ActionKind::weight_backward:
        add(cost.weight_backward_peak);
        break;
      default:
        add(cost.backward_peak);
    }
  }

  /// Puts the host further ahead than it takes to give the device all that follows.
  void run_ahead() {
    rank_.device.synchronize();
    rank_.device.occupy(Stream::compute, long_enough, "host");
    const Event ahead = rank_.device.record(Stream::compute);
    for (const StreamSpec& stream : {streams::tensors, streams::sequences, streams::replicas})
      rank_.device.wait(rank_.device.stream(stream), ahead);
  }

  /// Lets a copy to the host go on until then, for which the next pass waits: seconds.
  double copy_for_long() {
    const Stream to_host = rank_.device.stream(streams::to_host);
    rank_.device.wait(to_host, rank_.device.record(Stream::compute));
    rank_.device.occupy(to_host, long_enough, "copy");
    rank_.offload.end = rank_.device.record(to_host);
    rank_.offload.sources.push_back(block_);
    return rank_.offload.end.time;
  }

  /// Notes when sums over ranks begin to take time of their own.
  void begin_sums() {
    if (rank_.config.program.device.host_waits_around_passes) run_ahead();
    given_ = of_host();
    sums_begin_ = passes_end();
  }

  /// `in_passes`: seconds behind begin_sums() that passes take.
  void add_step(PartCost& cost, double in_passes) {
    optimizer_->sum_gradients(options_);
    cost.sums = end() - (sums_begin_ + in_passes);
    const double summed = of_host() - given_;
    cost.step = seconds_of([&] {
      (void)optimizer_->step_with_sums(options_, {block_, block_});
      if (rank_.config.schedule.delay > 0)
        for (Parameter* p : model_->part(0).parameters())
          RankAt(rank_).event(ModelEvent::weight_stepped, p->weight);
      optimizer_->clear_gradients();
      // A tied table's gradient that is on its way stays in memory until the next step.
      cost.fixed = rank_.ledger.current();
      cost.fixed_on_host = rank_.host.current();
    });
    cost.host_of_step = of_host() - given_;
    cost.late_step = seconds_of([&] { optimizer_->finish(rank_); });
    cost.other_version = seconds_of([&] { RankAt(rank_).event(ModelEvent::version_used, block_); });
    if (rank_.config.validate_steps != StepValidation::after) return;
    const double before_halves = of_host();
    cost.norm = seconds_of([&] { (void)optimizer_->update().squared_norm_of_stage(); });
    cost.ahead = seconds_of([&] { optimizer_->update().write_ahead(options_, {block_, block_}); });
    cost.validated_step = seconds_of([&] {
      optimizer_->update().apply(options_, {}, {block_, block_}, false);
      optimizer_->clear_gradients();
    });
    cost.host_of_step = summed + of_host() - before_halves;
  }

  /// Bytes, without what is on its way to the host: that goes in the next pass.
  int64_t held() const {
    int64_t leaving = 0;
    for (const Tensor& source : rank_.offload.sources) leaving += source.view().bytes();
    return rank_.ledger.current() - leaving;
  }
  /// Times at which the passes so far end, and all that goes on does.
  double passes_end() { return rank_.device.record(Stream::compute).time; }
  double end() { return rank_.device.now(); }
  template <class Work>
  double seconds_of(const Work& work) {
    const double start = end();
    work();
    return end() - start;
  }
  /// Seconds in which the host has given the device all work so far.
  double of_host() const { return rank_.device.work().calls.issue_seconds; }

  Rank& rank_;
  const OptimizerOptions options_;
  const int chunks_;
  std::unique_ptr<StageModel> model_;
  Tensor block_;
  std::unique_ptr<WeightVersions> weights_;
  std::unique_ptr<Optimizer> optimizer_;
  PairCost pair_;
  int64_t held_ = 0, on_host_ = 0;     // before the last forward pass
  double sums_begin_ = 0, given_ = 0;  // then, and seconds of the host until then
};

/// Executes so many layers on one rank.
void on_one_rank(RunConfig run, const Machine& machine, int64_t layers,
                 const std::function<void(Rank&)>& body) {
  run.model.layers = layers;
  make_virtual_cluster(run, machine)->run(body);
}

/// Number of layers from which on each one more costs the same.
int64_t enough_layers(const RunConfig& run) {
  const DeviceRules& rules = run.program.device;
  // A host that waits is late with some layers, and not with others.
  const bool host_waits = rules.host_waits_around_passes || rules.host != Host::launches ||
                          rules.messages.kind != Messages::beside;
  if (host_waits || run.recompute_layers > 0 || run.recompute_group > 1 || run.offload)
    return run.model.layers;
  return run.reduces_in_backward() ? 4 : 2;
}

/// Parameters, one microbatch forward and backward, and a step.
PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part, bool turns) {
  PartCost cost;
  on_one_rank(run, machine, part.layers,
              [&](Rank& rank) { cost = PartExecution(rank, optimizer, {part}).run(turns); });
  return cost;
}

}  // namespace

RunConfig lone_rank_of(const RunConfig& run) {
  RunConfig rank = run;
  rank.pipeline_parallel = rank.chunks = 1;
  rank.stage_layers = {};
  rank.microbatches = 1;
  rank.overlap_passes = PassOverlap::on;
  rank.overlap_grad_reduce = false;
  rank.bucket_size = ShardOptions::by_rule;
  if (run.schedule.flushes)
    rank.schedule = run.schedule.splits_backward ? ScheduleKind::zero_bubble_h1
                                                 : ScheduleKind::one_forward_one_backward;
  if (run.shard == Shard::none) rank.data_parallel = 1;
  return rank;
}

double least_passes(const ScheduleKind& kind, const PartCost& part) {
  const double whole = part.backward.seconds,
               split = part.input_backward.seconds + part.weight_backward.seconds;
  return part.forward.seconds + (kind.splits_backward ? std::min(whole, split) : whole);
}

PartCost plus(const PartCost& a, int64_t n, const PartCost& b) {
  PartCost sum = a;
  const auto times = static_cast<double>(n);
  for (const auto pass : all_passes)
    for (const auto seconds : {&PassCost::seconds, &PassCost::host, &PassCost::lead,
                               &PassCost::copies, &PassCost::grace})
      sum.*pass.*seconds += times * (b.*pass.*seconds);
  for (const auto seconds : {&PartCost::sums, &PartCost::step, &PartCost::norm, &PartCost::ahead,
                             &PartCost::validated_step, &PartCost::late_step,
                             &PartCost::other_version, &PartCost::host_of_step})
    sum.*seconds += times * (b.*seconds);
  for (const auto bytes :
       {&PartCost::weights, &PartCost::gradients, &PartCost::fixed, &PartCost::kept,
        &PartCost::owed, &PartCost::fixed_on_host, &PartCost::kept_on_host, &PartCost::forward_peak,
        &PartCost::backward_peak, &PartCost::input_backward_peak, &PartCost::weight_backward_peak})
    sum.*bytes += n * (b.*bytes);
  return sum;
}

PartCosts::PartCosts(const RunConfig& run, const OptimizerOptions& optimizer,
                     const Machine& machine)
    : run_(lone_rank_of(run)),
      optimizer_(optimizer),
      machine_(without_limits(machine)),
      kinds_(run.model.window > 0 ? run.model.window_period : 1),
      most_(enough_layers(run)),
      hidden_state_(run.local_sequence() * run.micro_batch * run.model.hidden *
                    static_cast<int64_t>(size_of(run.type))) {}

const PartCost& PartCosts::executed(ModelPart part, bool turns) const {
  part.first_layer %= kinds_;
  const std::tuple key{part.first_layer, part.layers, part.first, part.last, turns};
  const std::scoped_lock lock(executing_);
  const auto found = executed_.find(key);
  if (found != executed_.end()) return found->second;
  return executed_.emplace(key, execute_part(run_, optimizer_, machine_, part, turns))
      .first->second;
}

PartCost PartCosts::next(int64_t layer) const {
  return plus(executed({layer, most_, false, false}), -1,
              executed({layer, most_ - 1, false, false}));
}

PartCost PartCosts::of(const ModelPart& part) const {
  PartCost cost = without_peaks(part);
  if (part.layers > most_ && (part.first || part.last)) correct_peaks(part, cost);
  put_measured(part, cost);
  return cost;
}

void PartCosts::put_passes(const ModelPart& part, const PassSeconds& seconds) {
  measured_passes_[key_of(part)] = seconds;
}

void PartCosts::put_step(const ModelPart& part, double seconds) {
  measured_steps_[key_of(part)] = seconds;
}

void PartCosts::put_measured(const ModelPart& part, PartCost& cost) const {
  if (const auto found = measured_passes_.find(key_of(part)); found != measured_passes_.end()) {
    for (size_t kind = 0; kind < all_passes.size(); ++kind)
      cost.*all_passes[kind] = {.seconds = found->second[kind]};
    cost.late_step = cost.other_version = 0;
  }
  if (const auto found = measured_steps_.find(key_of(part)); found != measured_steps_.end()) {
    cost.sums = cost.host_of_step = 0;
    cost.step = found->second;
  }
}

PartCost PartCosts::without_peaks(const ModelPart& part) const {
  const int64_t more = std::max<int64_t>(part.layers - most_, 0);
  PartCost cost = executed({part.first_layer, part.layers - more, part.first, part.last});
  for (int64_t i = 0; i < std::min(kinds_, more); ++i)  // those of a kind together
    cost = plus(cost, (more - 1 - i) / kinds_ + 1, next(part.first_layer + i + 1));
  return cost;
}

std::vector<ModuleCost> PartCosts::modules(const ModelPart& part, const PartCost& cost,
                                           PassCost PartCost::*pass) const {
  const int64_t few = std::min(part.layers, most_);
  const PartCost inner = executed({part.first_layer, few, false, false});
  const auto module = [&](const PartCost& more, const PartCost& fewer) {
    return ModuleCost{(more.*pass).seconds - (fewer.*pass).seconds,
                      more.gradients - fewer.gradients};
  };
  const auto end = [&](bool first, bool last) {
    if (!first && !last) return ModuleCost();
    return module(executed({part.first_layer, few, first, last}), inner);
  };
  const ModuleCost embedding = end(part.first, false);
  std::vector<ModuleCost> all = {end(false, part.last)};
  for (int64_t i = part.layers; i-- > 0;) {
    // Where parts are executed as they are, all layers are taken to be alike.
    const bool alike = most_ >= run_.model.layers;
    all.push_back(
        alike ? ModuleCost{(inner.*pass).seconds / static_cast<double>(few), inner.gradients / few}
              : module(next(part.first_layer + i + 1 + (kinds_ - 1) * most_), {}));
  }
  all.push_back(embedding);
  // A table that both ends use is complete where the embedding is.
  if (run_.model.tied && part.last && part.ends_meet())
    all.front().gradients -= tied_table_bytes(run_);
  double seconds = 0;
  for (const ModuleCost& each : all) seconds += each.seconds;
  for (ModuleCost& each : all) each.seconds *= (cost.*pass).seconds / seconds;
  return all;
}

PartCost PartCosts::turning(const ModelPart& part) const {
  if (!run_.offload) return of(part);
  // An end beside the other one has a table all the same where it is alone.
  return executed({part.first_layer, part.layers, part.first, part.last}, true);
}

const PairCost& PartCosts::together(const std::vector<ModelPart>& chunks, int forward_chunk) const {
  std::vector<int64_t> key = {forward_chunk};
  int64_t layers = 0;
  for (const ModelPart& part : chunks) {
    key.insert(key.end(),
               {part.first_layer % kinds_, part.layers, part.first ? 1 : 0, part.last ? 1 : 0});
    layers += part.layers;
  }
  const std::scoped_lock lock(executing_);
  const auto found = together_.find(key);
  if (found != together_.end()) return found->second;
  PairCost cost;
  on_one_rank(run_, machine_, layers, [&](Rank& rank) {
    cost = PartExecution(rank, optimizer_, chunks).run_together(forward_chunk);
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

Machine without_limits(Machine machine) {
  machine.memory_capacity = machine.host_memory = std::numeric_limits<int64_t>::max();
  machine.parameters = {};
  return machine;
}

OptimizerOptions planned_optimizer(const ScheduleKind& kind) {
  OptimizerOptions options;
  if (!kind.flushes) options.clip = 0;
  return options;
}

int64_t tied_table_bytes(const RunConfig& run) {
  return run.model.vocabulary / run.tensor_parallel * run.model.hidden *
         static_cast<int64_t>(size_of(run.gradient_type()));
}

double summed_bytes(const RunConfig& run, int64_t gradients) {
  return static_cast<double>(gradients) * static_cast<double>(size_of(run.sum_type())) /
         static_cast<double>(size_of(run.gradient_type()));
}

bool makes_together(const RunConfig& run) {
  return run.schedule.makes_together && run.overlaps_passes();
}

}  // namespace frugal::engine
