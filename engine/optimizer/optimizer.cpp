#include "engine/optimizer/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/comm/communicator.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

constexpr double no_norm = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Optimizer::Optimizer(Rank& rank, ParameterList parameters, const OptimizerOptions& options,
                     const Tensor& weights)
    : rank_(rank),
      parameters_(rank, std::move(parameters)),
      reduction_(rank, parameters_),
      update_(rank, parameters_, options, weights) {
  if (options.clip > 0 && rank.config.step_in_backward)
    throw InputError(
        fmt::format("clip is {} and weights step in backward, before the norm of all gradients is "
                    "known; choose clip 0, or do not step in backward",
                    options.clip));
}

void Optimizer::clear_gradients() {
  reduction_.await();
  parameters_.clear_gradients();
}

bool Optimizer::meets_stages(const OptimizerOptions& options) const {
  return options.clip != 0 || rank_.config.schedule.flushes;
}

double Optimizer::step(const OptimizerOptions& options, const WeightBlocks& blocks) {
  if (rank_.config.step_in_backward) return end_in_backward();
  sum_gradients(options);
  return step_with_sums(options, blocks);
}

void Optimizer::sum_gradients(const OptimizerOptions& options) {
  finish(rank_);
  parameters_.zero_unwritten();
  reduction_.sum_over_replicas();
  if (meets_stages(options))
    reduction_.complete();
  else
    reduction_.sum_partial();
}

double Optimizer::step_with_sums(const OptimizerOptions& options, const WeightBlocks& blocks) {
  if (!meets_stages(options)) {
    update_without_meeting(options, blocks);
    return no_norm;
  }
  const Tensor squares = update_.squared_norm();
  update_.apply(options, squares, blocks);
  const double norm = update_.norm_of(squares);  // the host has issued the update before it waits
  return rank_.whole() ? norm : no_norm;
}

/// Steps all but a tied table, whose gradient sets out for the other end of the pipeline. It goes
/// in a copy because the next batch's backward passes add to the gradient before the other end has
/// answered.
void Optimizer::update_without_meeting(const OptimizerOptions& o, const WeightBlocks& blocks) {
  update_.begin(o);
  for (const ParameterGroup& group : parameters_.groups()) {
    update_.make_state(group, blocks.from);
    const View gradient = parameters_.gradient_of(group);
    if (!group.tied) {
      update_.apply(rank_, group, gradient, o, {}, blocks);
      continue;
    }
    Late late{
        &group, rank_.allocate(gradient.type, gradient.shape, Kind::communication), {}, o, blocks};
    rank_.run(Convert{gradient, late.gradient});
    late.sum = rank_.groups.ends.all_reduce(late.gradient);
    late_ = std::move(late);
  }
  parameters_.gather_weights(blocks.to);
}

void Optimizer::await_gradients() {
  if (late_) late_->sum.wait();
}

void Optimizer::finish(const RankAt& at) {
  if (!late_) return;
  await_gradients();
  update_.apply(at, *late_->group, late_->gradient, late_->options, {}, late_->blocks);
  if (const ParameterUnit* unit = late_->group->unit())
    parameters_.gather_weights(late_->blocks.to, unit);
  late_.reset();
}

void Optimizer::write_exact(const Tensor& block) {
  finish(rank_);
  update_.write_exact(block);
}

void Optimizer::begin_in_backward(const RankAt& at, const OptimizerOptions& options) {
  if (options.clip > 0) throw std::logic_error("no gradient is clipped that steps in backward");
  if (!squares_.empty()) return;
  update_.begin(options);
  squares_ = at.allocate(DType::f64, {1}, Kind::statistics);
  at.run(Fill{squares_, 0});
}

void Optimizer::step_in_backward(const RankAt& at, const ParameterList& parameters,
                                 const OptimizerOptions& options) {
  begin_in_backward(at, options);
  for (const ParameterGroup& group : parameters_.groups()) {
    const Parameter* p = &group.first();
    if (std::ranges::find(parameters, p) == parameters.end() || is_unstepped(rank_, *p)) continue;
    const View& gradient = p->grad(at);
    if (p->gradient_is_partial) sum_over(rank_.tensor_group, gradient);
    sum_over(rank_.groups.context, gradient);
    sum_over(rank_.groups.data, gradient);
    step_in_backward(at, group, gradient.flat(), options, {});
  }
  for (Parameter* p : parameters)
    if (!is_unstepped(rank_, *p)) p->gradient.release();
}

void Optimizer::step_in_backward(const RankAt& at, const ParameterUnit& unit, const View& gradients,
                                 const OptimizerOptions& options, const Tensor& weights) {
  begin_in_backward(at, options);
  const DType type = rank_.config.state_type();
  const Tensor wide = type == gradients.type ? Tensor() : at.allocate(type, gradients.shape);
  if (!wide.empty()) at.run(Convert{gradients, wide});
  for (const ParameterGroup& group : parameters_.groups()) {
    if (group.unit() != &unit) continue;
    const View gradient = parameters_.in_unit(group, wide.empty() ? gradients : wide.view());
    sum_over(rank_.groups.copies, gradient);
    reduction_.sum_partial(group, gradient);
    step_in_backward(at, group, gradient, options, {weights, weights});
  }
  parameters_.gather_weights(weights, &unit);
}

void Optimizer::step_in_backward(const RankAt& at, const ParameterGroup& group,
                                 const View& gradient, const OptimizerOptions& options,
                                 const WeightBlocks& blocks) {
  if (group.counted) at.run(Sum{gradient, squares_, true});
  update_.make_state(group, blocks.from);
  Extras extras;
  update_.announce_step(at, group, extras);
  update_.apply(at, group, gradient, options, {}, blocks);
  at.event(ModelEvent::moments_stepped, extras);
}

/// Returns the norm, which comes too late for clipping.
double Optimizer::end_in_backward() {
  if (!parameters_.units().empty()) sum_over(rank_.groups.shards, squares_);
  sum_over(rank_.tensor_group, squares_);
  const double norm = update_.norm_of(std::exchange(squares_, Tensor()));
  return rank_.whole() ? norm : no_norm;
}

void BackwardReduction::add(const RankAt& at, const ParameterList& complete) {
  for (const Parameter* p : complete) p->grad(at);  // those that nothing was added to
  if (at.rank.config.program.weights.copied_unit_gradients) {
    finish(at);
    copy_in(at, complete);
  }
  for (const Parameter* p : complete) p->gradient.release();
  for (const Parameter* p : complete)
    if (!p->unit->gradients.empty()) start(at, p->unit);
}

void BackwardReduction::copy_in(const RankAt& at, const ParameterList& complete) {
  for (const Parameter* p : complete) {
    const View all = gradients_of(at, *p->unit).view();
    at.run(Copy{p->grad().flat(), all.sliced(0, p->offset - p->unit->offset, p->grad().size())});
  }
}

void BackwardReduction::start(const RankAt& at, const std::shared_ptr<ParameterUnit>& unit) {
  finish(at);
  const RunConfig& c = at.rank.config;
  InFlight next{
      .unit = unit, .all = std::exchange(unit->gradients, Tensor()), .part = {}, .sum = {}};
  at.event(ModelEvent::unit_gradients_complete, next.all);
  if (c.narrow_reduction && c.type != next.all.type()) {
    const Tensor wide =
        std::exchange(next.all, at.allocate(c.type, next.all.shape(), Kind::communication));
    at.run(Convert{wide, next.all});
  }
  if (c.program.weights.copied_unit_gradients && optimizer_.parameters().has_gradients(*unit))
    next.part = next.all.with_view(part_of(next.all, at.rank.groups.shards.rank(), unit->parts));
  else
    next.part = at.allocate_for(MemoryOf::reductions, next.all.type(),
                                {unit->elements / unit->parts}, Kind::communication);
  next.sum = at.rank.groups.shards.reduce_scatter(next.all, next.part);
  in_flight_ = std::move(next);
}

void BackwardReduction::finish(const RankAt& at) {
  if (!in_flight_) return;
  in_flight_->sum.wait();
  in_flight_->all.release();
  const ParameterUnit& unit = *in_flight_->unit;
  if (!at.rank.config.step_in_backward)
    optimizer_.reduction().add(at, unit, in_flight_->part, last_);
  else if (options_ != nullptr)
    optimizer_.step_in_backward(at, unit, in_flight_->part, *options_, weights_);
  in_flight_.reset();
}

}  // namespace frugal::engine
