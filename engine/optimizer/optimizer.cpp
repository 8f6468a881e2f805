#include "engine/optimizer/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/model/table_names.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

void sum(Communicator& group, const View& x) {
  if (group.size() > 1) group.all_reduce(x).wait();
}

/// `elements` from a tensor's first on: its own, and what follows it in the block.
View from(const Tensor& first, int64_t elements) {
  return {first.view().data, first.type(), {elements}};
}

/// Whether p is what follows so many elements, from that parameter's first on, in the block.
bool is_behind(const Parameter& first, int64_t elements, const Parameter& p) {
  return p.offset >= 0 && p.offset == first.offset + ParameterStore::padded(elements);
}

bool is_vector(const Parameter& p) { return p.view().shape.dims == 1; }

/// Whether stages step without meeting.
bool waits_for_nobody(const Rank& rank, const OptimizerOptions& options) {
  return options.clip == 0 && !rank.config.schedule.flushes;
}

}  // namespace

std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::momentum:
      return "momentum";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
  }
  return "?";
}

Optimizer::Optimizer(Rank& rank, ParameterList parameters, const OptimizerOptions& options,
                     const Tensor& weights)
    : parameters_(std::move(parameters)),
      kind_(options.kind),
      prediction_(options.prediction),
      parts_of_weights_(rank.config.shards(Shard::weights)),
      part_(rank.groups.shards.rank()) {
  if (predicts() && rank.config.offload_optimizer)
    throw InputError(
        "weights are predicted and the optimizer's state is offloaded; passes read what is "
        "computed from all of it: choose no weight prediction, or do not offload it");
  if (options.clip > 0 && rank.config.step_in_backward)
    throw InputError(
        fmt::format("clip is {} and weights step in backward, before the norm of all gradients is "
                    "known; choose clip 0, or do not step in backward",
                    options.clip));
  // In memory's order.
  if (rank.config.overwrite_gradients || rank.config.shards(Shard::optimizer))
    std::ranges::stable_sort(parameters_, {}, [](const Parameter* p) { return p->offset; });
  int64_t in_parts = 0;
  for (const Parameter* p : parameters_)
    if (p->unit && (units_.empty() || units_.back().unit != p->unit)) {
      units_.push_back({p->unit, p});
      in_parts += p->unit->elements / p->unit->parts;
    }
  if (rank.config.reduces_in_backward() && !rank.config.gradients_come_and_go()) {
    gradients_ = rank.allocate(rank.config.state_type(), {in_parts}, Kind::gradient);
    rank.run(Fill{gradients_, 0});
  }
  make_groups(rank, weights);
}

void Optimizer::drop_gradients(const ParameterList& parameters) {
  for (Parameter* p : parameters) p->gradient.release();
}

/// Matrices are left to who is first to add to them: a product, usually, which overwrites. Vectors
/// are sums over rows, and all cleared at once.
void Optimizer::make_fresh(Rank& rank) {
  for (size_t i = 0; i < parameters_.size();) {
    const Parameter& first = *parameters_[i];
    if (!is_vector(first)) {
      first.fresh = true;
      ++i;
      continue;
    }
    int64_t elements = 0;
    do {
      elements = ParameterStore::padded(elements) + parameters_[i]->view().size();
      ++i;
    } while (i < parameters_.size() && is_vector(*parameters_[i]) &&
             is_behind(first, elements, *parameters_[i]));
    rank.run(Fill{from(first.gradient, elements), 0});
  }
}

void Optimizer::clear_fresh(Rank& rank) {
  for (const Parameter* p : parameters_)
    if (p->fresh) p->grad(rank);
}

void Optimizer::clear_gradients(Rank& rank) {
  if (rank.config.gradients_come_and_go() || rank.config.reduces_in_backward()) {
    for (Parameter* p : parameters_)
      if (!is_forgotten(rank, *p)) p->gradient.release();
    for (Unit& unit : units_) {
      unit.unit->gradients.release();
      unit.gradients.release();
    }
    await_sums();
    if (!gradients_.empty()) rank.run(Fill{gradients_, 0});
    return;
  }
  if (rank.config.overwrite_gradients) return make_fresh(rank);
  if (units_.empty())
    for (const Group& group : groups_) rank.run(Fill{gradient_of(group), 0});
  for (const Unit& unit : units_)
    rank.run(Fill{from(unit.first->gradient, unit.unit->elements), 0});
}

Tensor Optimizer::squared_norm_of_stage(Rank& rank) const {
  Tensor total = rank.allocate(DType::f64, {1});
  rank.run(Fill{total, 0});
  for (const Group& group : groups_)
    if (group.counted) rank.run(Sum{gradient_of(group), total, true});
  if (!units_.empty()) sum(rank.groups.shards, total);
  sum(rank.tensor_group, total);
  return total;
}

Tensor Optimizer::squared_norm(Rank& rank) const {
  Tensor total = squared_norm_of_stage(rank);
  sum(rank.groups.stages, total);
  return total;
}

double Optimizer::norm_of(Rank& rank, const Tensor& squares) const {
  double value = 0;
  if (rank.device.backed()) rank.device.copy_to_host(&value, squares);
  return norm_of(rank, value);
}

double Optimizer::norm_of(const Rank& rank, double squares) const {
  if (!rank.device.backed()) return std::numeric_limits<double>::quiet_NaN();
  if (rank.whole() && !std::isfinite(squares))
    throw WrongNumbers(fmt::format("the gradient's norm is {} in step {}; lower the learning rate",
                                   std::sqrt(squares), steps_));
  return std::sqrt(squares);
}

WeightUpdate Optimizer::update_of(const Group& group, const View& gradient,
                                  const OptimizerOptions& o, const WeightBlocks& blocks) const {
  const bool in_blocks = group.offset >= 0 && !blocks.from.empty();
  return {.weights = weights_of(group, blocks.from),
          .gradient = gradient,
          .result = in_blocks ? weights_of(group, blocks.to) : View(),
          .learning_rate = static_cast<float>(o.learning_rate),
          .weight_decay = static_cast<float>(o.weight_decay),
          .decoupled = o.kind != OptimizerKind::adam,
          .prediction = static_cast<float>(o.prediction)};
}

void Optimizer::run_update(const RankAt& at, const WeightUpdate& whole, const OptimizerOptions& o,
                           int64_t step, const OptimizerState::Part& part) {
  const auto of = [&](const View& view) {
    return view.empty() ? view : view.sliced(0, part.begin, part.count);
  };
  WeightUpdate update = whole;
  update.weights = of(whole.weights);
  update.gradient = of(whole.gradient);
  update.result = of(whole.result);
  update.master = part.master;
  if (part.second_moment.empty()) {
    const auto beta = static_cast<float>(part.moment.empty() ? 0 : o.momentum);
    at.run(Momentum{.update = update, .moment = part.moment, .beta = beta});
  } else {
    at.run(Adam{.update = update,
                .first_moment = part.moment,
                .second_moment = part.second_moment,
                .beta1 = static_cast<float>(o.beta1),
                .beta2 = static_cast<float>(o.beta2),
                .epsilon = static_cast<float>(o.epsilon),
                .step = step});
  }
}

void Optimizer::update(const RankAt& at, const Group& group, const View& gradient,
                       const OptimizerOptions& o, const View& squared_norm,
                       const WeightBlocks& blocks) {
  WeightUpdate whole = update_of(group, gradient, o, blocks);
  whole.squared_norm = squared_norm;
  whole.clip = o.clip;
  whole.finite_only = at.rank.whole();
  group.state.update(
      at, [&](const OptimizerState::Part& part) { run_update(at, whole, o, steps_, part); });
}

void Optimizer::make_intermediate(const RankAt& at, const Group& group, std::vector<Tensor>& all) {
  if (!at.rank.config.program.keeps.optimizer_intermediate) return;
  const Tensor& moment = group.state.second_moment();
  if (moment.empty()) return;
  all.push_back(at.allocate(moment.type(), moment.shape(), group.first().pieces, Kind::optimizer));
  at.run(Copy{moment, all.back()});
}

void Optimizer::begin_step(const OptimizerOptions& o) {
  if (o.kind != kind_)
    throw std::logic_error(
        fmt::format("an optimizer made as {} cannot step as {}", name_of(kind_), name_of(o.kind)));
  if (o.prediction != prediction_)
    throw std::logic_error(fmt::format("an optimizer made to predict {} updates cannot predict {}",
                                       prediction_, o.prediction));
  ++steps_;
}

void Optimizer::update(const RankAt& at, const OptimizerOptions& o, const View& squared_norm,
                       const WeightBlocks& blocks, bool gather) {
  begin_step(o);
  for (Group& group : groups_) make_state(at.rank, group, blocks.from);
  std::vector<Tensor> intermediate;  // of all at once
  for (const Group& group : groups_) make_intermediate(at, group, intermediate);
  for (const Group& group : groups_) update(at, group, gradient_of(group), o, squared_norm, blocks);
  if (gather) gather_weights(at.rank, blocks.to);
}

bool Optimizer::has_masters(const RunConfig& config) const {
  return config.has_masters() || predicts();
}

void Optimizer::write_ahead(const RankAt& at, const OptimizerOptions& o,
                            const WeightBlocks& blocks) {
  const bool in_place = blocks.from.view().data == blocks.to.view().data;
  for (Group& group : groups_) {
    if (!has_masters(at.rank.config) && (group.offset < 0 || (in_place && at.rank.device.backed())))
      throw std::logic_error("weights that a step is made from would be overwritten");
    make_state(at.rank, group, blocks.from);
    WeightUpdate whole = update_of(group, gradient_of(group), o, blocks);
    whole.keeps_state = true;
    group.state.read(
        at, [&](const OptimizerState::Part& part) { run_update(at, whole, o, steps_ + 1, part); });
  }
  gather_weights(at.rank, blocks.to);
}

/// All but a tied table, whose gradient sets out for the other end of the pipeline. It goes in a
/// copy because the next batch's backward passes add to the gradient before the other end has
/// answered.
void Optimizer::update_without_waiting(Rank& rank, const OptimizerOptions& o,
                                       const WeightBlocks& blocks) {
  begin_step(o);
  for (Group& group : groups_) {
    make_state(rank, group, blocks.from);
    const View gradient = gradient_of(group);
    if (!group.tied) {
      update(rank, group, gradient, o, {}, blocks);
      continue;
    }
    Late late{
        &group, rank.allocate(gradient.type, gradient.shape, Kind::communication), {}, o, blocks};
    rank.run(Convert{gradient, late.gradient});
    late.sum = rank.groups.ends.all_reduce(late.gradient);
    late_ = std::move(late);
  }
  gather_weights(rank, blocks.to);
}

void Optimizer::await_gradients() {
  if (late_) late_->sum.wait();
}

void Optimizer::finish(const RankAt& at) {
  if (!late_) return;
  await_gradients();
  update(at, *late_->group, late_->gradient, late_->options, {}, late_->blocks);
  if (const ParameterUnit* unit = late_->group->unit())
    gather_weights(at.rank, late_->blocks.to, unit);
  late_.reset();
}

void Optimizer::write_exact(Rank& rank, const Tensor& block) {
  finish(rank);
  for (const Group& group : groups_)
    rank.run(Convert{group.state.master(), weights_of(group, block)});
  gather_weights(rank, block);
}

void Optimizer::begin_step_in_backward(const RankAt& at, const OptimizerOptions& options) {
  if (options.clip > 0) throw std::logic_error("no gradient is clipped that steps in backward");
  if (!squares_.empty()) return;
  begin_step(options);
  squares_ = at.allocate(DType::f64, {1}, Kind::statistics);
  at.run(Fill{squares_, 0});
}

void Optimizer::step_in_backward(const RankAt& at, const ParameterList& parameters,
                                 const OptimizerOptions& options) {
  begin_step_in_backward(at, options);
  for (Group& group : groups_) {
    const Parameter* p = &group.first();
    if (std::find(parameters.begin(), parameters.end(), p) == parameters.end()) continue;
    if (is_forgotten(at.rank, *p)) continue;
    const View& gradient = p->grad(at);
    if (p->gradient_is_partial) sum(at.rank.tensor_group, gradient);
    sum(at.rank.groups.context, gradient);
    sum(at.rank.groups.data, gradient);
    if (group.counted) at.run(Sum{gradient, squares_, true});
    make_state(at.rank, group, {});
    std::vector<Tensor> intermediate;
    for (int i = 0; i < 2; ++i) make_intermediate(at, group, intermediate);
    update(at, group, gradient.flat(), options, {}, {});
  }
  for (Parameter* p : parameters)
    if (!is_forgotten(at.rank, *p)) p->gradient.release();
}

/// The norm, which comes too late for clipping.
double Optimizer::end_step_in_backward(Rank& rank) {
  if (!units_.empty()) sum(rank.groups.shards, squares_);
  sum(rank.tensor_group, squares_);
  const double norm = norm_of(rank, std::exchange(squares_, Tensor()));
  return rank.whole() ? norm : std::numeric_limits<double>::quiet_NaN();
}

double Optimizer::step(Rank& rank, const OptimizerOptions& options, const WeightBlocks& blocks) {
  if (rank.config.step_in_backward) return end_step_in_backward(rank);
  sum_gradients(rank, options);
  return step_with_sums(rank, options, blocks);
}

void Optimizer::sum_gradients(Rank& rank, const OptimizerOptions& options) {
  finish(rank);
  clear_fresh(rank);
  flatten_gradients(rank);
  sum_over_replicas(rank);
  if (waits_for_nobody(rank, options))
    sum_partial_gradients(rank);
  else
    complete_gradients(rank);
}

double Optimizer::step_with_sums(Rank& rank, const OptimizerOptions& options,
                                 const WeightBlocks& blocks) {
  if (waits_for_nobody(rank, options)) {
    update_without_waiting(rank, options, blocks);
    return std::numeric_limits<double>::quiet_NaN();
  }
  const Tensor squares = squared_norm(rank);
  update(rank, options, squares, blocks);
  const double norm = norm_of(rank, squares);  // the host has issued the update before it waits
  return rank.whole() ? norm : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace frugal::engine
