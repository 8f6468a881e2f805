#include "engine/plan/part_cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "engine/cluster/cluster.h"
#include "engine/plan/part_run.h"

namespace frugal::engine {
namespace {

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
  const DeviceRules& rules = run.program.device;
  // A host that waits is late with some layers, and not with others.
  const bool host_waits = rules.host_waits_around_passes || rules.messages.kind != Messages::beside;
  if (host_waits || run.recompute_layers > 0 || run.recompute_group > 1 || run.offload)
    return run.model.layers;
  return run.reduces_in_backward() ? 4 : 2;
}

/// Parameters, one microbatch forward and backward, and a step.
PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part, bool turns) {
  PartCost cost;
  on_one_rank(run, machine, part.layers, [&](Rank& rank) {
    cost = PartRun(rank, optimizer, {part}, machine.launch_overhead).run(turns);
  });
  return cost;
}

}  // namespace

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
    : run_(run),
      optimizer_(optimizer),
      machine_(machine),
      kinds_(run.model.window > 0 ? run.model.window_period : 1),
      most_(enough_layers(run)),
      hidden_state_(run.local_sequence() * run.micro_batch * run.model.hidden *
                    static_cast<int64_t>(size_of(run.type))) {
  machine_.memory_capacity = machine_.host_memory = std::numeric_limits<int64_t>::max();
}

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

PartCost PartCosts::turning(const ModelPart& part) const {
  if (!run_.offload) return of(part);
  // An end beside the other one has a table all the same where it is alone.
  return executed({part.first_layer, part.layers, part.first, part.last}, true);
}

const PairCost& PartCosts::together(const ModelPart& chunk_0, const ModelPart& chunk_1,
                                    int forward_chunk) const {
  std::vector<int64_t> key = {forward_chunk};
  for (const ModelPart& part : {chunk_0, chunk_1})
    key.insert(key.end(),
               {part.first_layer % kinds_, part.layers, part.first ? 1 : 0, part.last ? 1 : 0});
  const std::scoped_lock lock(executing_);
  const auto found = together_.find(key);
  if (found != together_.end()) return found->second;
  PairCost cost;
  on_one_rank(run_, machine_, chunk_0.layers + chunk_1.layers, [&](Rank& rank) {
    cost = PartRun(rank, optimizer_, {chunk_0, chunk_1}, machine_.launch_overhead)
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
