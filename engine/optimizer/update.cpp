#include "engine/optimizer/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Elements that come to the device at a time: few beside a model's weights, many beside what a
/// transfer costs in any case.
constexpr int64_t most = 1 << 24;

int moments_of(OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return 0;
  return kind == OptimizerKind::momentum ? 1 : 2;
}

}  // namespace

OptimizerState::OptimizerState(Rank& rank, const View& weights, int moments, bool master,
                               const Pieces& pieces)
    : elements_(weights.size()) {
  const RunConfig& c = rank.config;
  if (c.offload_optimizer && !master && moments == 0)
    throw InputError(
        "the optimizer's state is offloaded and this optimizer has none (sgd without a float32 "
        "copy of the weights); choose another optimizer, or do not offload it");
  Ledger& ledger = c.offload_optimizer ? rank.host : rank.ledger;
  const DType wide = accumulation_type(c.type);
  if (master && has_float32_parts(c))
    kept_[0] = Tensor().with_view({nullptr, wide, {elements_}});
  else if (master)
    kept_[0] = Tensor(ledger, Kind::optimizer, wide, {elements_}, {}, pieces);
  for (int i = 1; i <= moments; ++i)
    kept_.at(static_cast<size_t>(i)) =
        Tensor(ledger, Kind::optimizer, c.state_type(), {elements_}, {}, pieces);
  for_each_part(rank, false, true, [&](const Part& part) {
    if (master) rank.run(Convert{weights.sliced(0, part.begin, part.count), part.master});
    if (moments > 0) rank.run(Fill{part.moment, 0});
    if (moments > 1) rank.run(Fill{part.second_moment, 0});
  });
}

void OptimizerState::for_each_part(const RankAt& at, bool known, bool changes,
                                   const std::function<void(const Part&)>& visit) const {
  if (!at.rank.config.offload_optimizer) {
    visit({0, elements_, kept_[0], kept_[1], kept_[2]});
    return;
  }
  const int64_t at_once = std::min(elements_, most);
  std::array<Tensor, 3> here;
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!kept_[i].empty()) here[i] = at.allocate(kept_[i].type(), {at_once}, Kind::optimizer);
  for (int64_t begin = 0; begin < elements_; begin += at_once) {
    const int64_t count = std::min(at_once, elements_ - begin);
    std::array<View, 3> host, device;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].empty()) continue;
      host[i] = kept_[i].view().sliced(0, begin, count);
      device[i] = here[i].view().sliced(0, 0, count);
      if (known) at.run(Transfer{host[i], device[i]});
    }
    visit({begin, count, device[0], device[1], device[2]});
    for (size_t i = 0; changes && i < kept_.size(); ++i)
      if (!kept_[i].empty()) at.run(Transfer{device[i], host[i]});
  }
}

Update::Update(Rank& rank, const FlatParameters& parameters, const OptimizerOptions& options,
               const Tensor& weights)
    : rank_(rank),
      parameters_(parameters),
      kind_(options.kind),
      prediction_(options.prediction),
      states_(parameters.groups().size()) {
  const RunConfig& c = rank.config;
  if (predicts() && c.offload_optimizer)
    throw InputError(
        "weights are predicted and the optimizer's state is offloaded; passes read what is "
        "computed from all of it: choose no weight prediction, or do not offload it");
  for (const ParameterGroup& group : parameters.groups()) {
    if (!c.program.optimizer.late_state) make_state(group, weights);
    if (c.program.optimizer.narrow_gradients && c.type != c.state_type())
      narrow_gradients_.push_back(RankAt(rank).allocate(
          c.type, {group.elements}, pieces_of(c, group.members()), Kind::gradient));
  }
}

const OptimizerState& Update::state_of(const ParameterGroup& group) const {
  return states_[static_cast<size_t>(&group - parameters_.groups().data())];
}

void Update::make_state(const ParameterGroup& group, const Tensor& weights) {
  OptimizerState& state = states_[static_cast<size_t>(&group - parameters_.groups().data())];
  if (!state.empty() || is_unstepped(rank_, group.first())) return;
  state = {rank_, parameters_.weights_of(group, weights), moments_of(kind_), has_masters(),
           parameters_.pieces_of(group)};
}

Tensor Update::squared_norm_of_stage() const {
  Tensor total = rank_.allocate(DType::f64, {1});
  rank_.run(Fill{total, 0});
  for (const ParameterGroup& group : parameters_.groups())
    if (group.counted) rank_.run(Sum{parameters_.gradient_of(group), total, true});
  if (!parameters_.units().empty()) sum_over(rank_.groups.shards, total);
  sum_over(rank_.tensor_group, total);
  return total;
}

Tensor Update::squared_norm() const {
  Tensor total = squared_norm_of_stage();
  sum_over(rank_.groups.stages, total);
  return total;
}

double Update::norm_of(const Tensor& squares) const {
  double value = 0;
  if (rank_.device.backed()) rank_.device.copy_to_host(&value, squares);
  return norm_of(value);
}

double Update::norm_of(double squares) const {
  if (!rank_.device.backed()) return std::numeric_limits<double>::quiet_NaN();
  if (rank_.whole() && !std::isfinite(squares))
    throw WrongNumbers(fmt::format("the gradient's norm is {} in step {}; lower the learning rate",
                                   std::sqrt(squares), steps_));
  return std::sqrt(squares);
}

WeightUpdate Update::update_of(const ParameterGroup& group, const View& gradient,
                               const OptimizerOptions& o, const WeightBlocks& blocks) const {
  const bool in_blocks = group.offset >= 0 && !blocks.from.empty();
  return {.weights = parameters_.weights_of(group, blocks.from),
          .gradient = gradient,
          .result = in_blocks ? parameters_.weights_of(group, blocks.to) : View(),
          .learning_rate = static_cast<float>(o.learning_rate),
          .weight_decay = static_cast<float>(o.weight_decay),
          .decoupled = o.kind != OptimizerKind::adam,
          .prediction = static_cast<float>(o.prediction)};
}

void Update::run(const RankAt& at, const WeightUpdate& whole, const OptimizerOptions& o,
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

void Update::apply(const RankAt& at, const ParameterGroup& group, const View& gradient,
                   const OptimizerOptions& o, const View& squared_norm,
                   const WeightBlocks& blocks) const {
  WeightUpdate whole = update_of(group, gradient, o, blocks);
  whole.squared_norm = squared_norm;
  whole.clip = o.clip;
  whole.finite_only = rank_.whole();
  state_of(group).update(
      at, [&](const OptimizerState::Part& part) { run(at, whole, o, steps_, part); });
}

void Update::announce_step(const RankAt& at, const ParameterGroup& group, Extras& extras) const {
  Tensor moment = state_of(group).second_moment();
  if (!moment.empty()) at.event(ModelEvent::moment_read, moment, extras);
}

void Update::begin(const OptimizerOptions& o) {
  if (o.kind != kind_)
    throw std::logic_error(
        fmt::format("an optimizer made as {} cannot step as {}", name_of(kind_), name_of(o.kind)));
  if (o.prediction != prediction_)
    throw std::logic_error(fmt::format("an optimizer made to predict {} updates cannot predict {}",
                                       prediction_, o.prediction));
  ++steps_;
}

void Update::apply(const OptimizerOptions& o, const View& squared_norm, const WeightBlocks& blocks,
                   bool gather) {
  begin(o);
  for (const ParameterGroup& group : parameters_.groups()) make_state(group, blocks.from);
  Extras extras;  // of all at once
  for (const ParameterGroup& group : parameters_.groups()) announce_step(rank_, group, extras);
  for (const ParameterGroup& group : parameters_.groups())
    apply(rank_, group, parameters_.gradient_of(group), o, squared_norm, blocks);
  if (gather) parameters_.gather_weights(blocks.to);
  RankAt(rank_).event(ModelEvent::moments_stepped, extras);
}

void Update::write_ahead(const OptimizerOptions& o, const WeightBlocks& blocks) {
  const bool in_place = blocks.from.view().data == blocks.to.view().data;
  for (const ParameterGroup& group : parameters_.groups()) {
    if (!has_masters() && (group.offset < 0 || (in_place && rank_.device.backed())))
      throw std::logic_error("weights that a step is made from would be overwritten");
    make_state(group, blocks.from);
    WeightUpdate whole = update_of(group, parameters_.gradient_of(group), o, blocks);
    whole.keeps_state = true;
    state_of(group).read(
        rank_, [&](const OptimizerState::Part& part) { run(rank_, whole, o, steps_ + 1, part); });
  }
  parameters_.gather_weights(blocks.to);
}

void Update::write_exact(const Tensor& block) const {
  for (const ParameterGroup& group : parameters_.groups())
    rank_.run(Convert{state_of(group).master(), parameters_.weights_of(group, block)});
  parameters_.gather_weights(block);
}

std::vector<Update::SliceState> Update::state() const {
  std::vector<SliceState> all;
  for (const ParameterGroup& group : parameters_.groups())
    for (const ParameterSlice& slice : group.slices) {
      const OptimizerState& state = state_of(group);
      const auto part = [&](const Tensor& of) {
        return of.empty() ? View() : group.of_slice(of, slice);
      };
      all.push_back(
          {slice, part(state.master()), part(state.moment()), part(state.second_moment())});
    }
  return all;
}

}  // namespace frugal::engine
