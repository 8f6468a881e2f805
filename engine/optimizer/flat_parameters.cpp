#include "engine/optimizer/flat_parameters.h"

#include <algorithm>

#include "engine/comm/communicator.h"
#include "engine/model/table_names.h"

namespace frugal::engine {
namespace {

/// The whole model's norm has a replicated weight once.
bool is_counted(const Rank& rank, const Parameter& p) {
  return !p.is_copy && (p.sharding != Sharding::replicated || rank.tensor_group.rank() == 0);
}

/// `elements` from a tensor's first on: its own, and what follows it in the block.
View from(const Tensor& first, int64_t elements) {
  return {first.view().data, first.type(), {elements}};
}

/// True if p begins where so many elements end, from parameter `first` on.
bool is_behind(const Parameter& first, int64_t elements, const Parameter& p) {
  return p.offset >= 0 && p.offset == first.offset + ParameterStore::padded(elements);
}

bool is_vector(const Parameter& p) { return p.view().shape.dims == 1; }

}  // namespace

void sum_over(Communicator& group, const View& x) {
  if (group.size() > 1) group.all_reduce(x).wait();
}

bool is_unstepped(const Rank& rank, const Parameter& p) {
  const RunConfig& c = rank.config;
  return c.program.optimizer.forgets_head && c.step_in_backward && c.head_mini_sequences() > 1 &&
         p.name == output_table;
}

ParameterSlice own_slice(const Rank& rank, Parameter& p) {
  if (!p.unit) return {&p, 0, p.view().size()};
  const ParameterUnit::Stretch own =
      p.unit->part(rank.groups.shards.rank()).shared_with(p.stretch());
  return {&p, own.begin - p.offset, own.count};
}

ParameterList ParameterGroup::members() const {
  ParameterList all;
  for (const ParameterSlice& slice : slices) all.push_back(slice.parameter);
  return all;
}

View ParameterGroup::of_slice(const View& group, const ParameterSlice& slice) const {
  const int64_t begin = offset < 0 ? 0 : slice.parameter->offset + slice.begin - offset;
  return group.sliced(0, begin, slice.count);
}

FlatParameters::FlatParameters(Rank& rank, ParameterList parameters)
    : rank_(rank), parameters_(std::move(parameters)) {
  const RunConfig& c = rank.config;
  if (c.overwrite_gradients || c.shards(Shard::optimizer))
    std::ranges::stable_sort(parameters_, {}, [](const Parameter* p) { return p->offset; });
  int64_t in_parts = 0;
  for (const Parameter* p : parameters_)
    if (p->unit && (units_.empty() || units_.back().unit != p->unit)) {
      units_.push_back({p->unit, p});
      in_parts += p->unit->elements / p->unit->parts;
    }
  if (c.reduces_in_backward() && !c.gradients_come_and_go()) {
    gradients_ = rank.allocate(c.gradient_type(), {in_parts}, Kind::gradient);
    rank.run(Fill{gradients_, 0});
  }
  for (Parameter* p : parameters_) add_to_groups(*p);
}

/// Adds p to the last group if it follows and is treated alike, otherwise to a new one.
void FlatParameters::add_to_groups(Parameter& p) {
  const ParameterSlice slice = own_slice(rank_, p);
  if (slice.count == 0) return;
  const int64_t offset = p.offset < 0 ? -1 : p.offset + slice.begin;
  const bool counted = is_counted(rank_, p);
  const auto takes = [&](const ParameterGroup& last) {
    return last.offset >= 0 && p.offset >= 0 && p.unit.get() == last.unit() &&
           offset == ParameterStore::padded(last.offset + last.elements) &&
           counted == last.counted && !p.tied && !last.tied &&
           (p.unit || !rank_.config.gradients_come_and_go());
  };
  if (groups_.empty() || !takes(groups_.back()))
    groups_.push_back({.offset = offset, .counted = counted, .tied = p.tied});
  ParameterGroup& group = groups_.back();
  group.elements = ParameterStore::padded(group.elements) + slice.count;
  group.slices.push_back(slice);
}

Pieces FlatParameters::pieces_of(const ParameterGroup& group) const {
  if (group.unit() == nullptr) return engine::pieces_of(rank_.config, group.members());
  return rank_.config.program.weights.separate ? pieces_in(*group.unit(), parameters_) : Pieces();
}

View FlatParameters::in_unit(const ParameterGroup& group, const View& part) const {
  const ParameterUnit& unit = *group.unit();
  return part.sliced(0, group.offset - unit.part(rank_.groups.shards.rank()).begin, group.elements);
}

/// A group's elements in a block of the rank's parts of all units.
View FlatParameters::in_parts(const ParameterGroup& group, const View& parts) const {
  const ParameterUnit& unit = *group.unit();
  return in_unit(group, parts.sliced(0, unit.part_offset(), unit.elements / unit.parts));
}

View FlatParameters::gradient_of(const ParameterGroup& group) const {
  if (!gradients_.empty()) return in_parts(group, gradients_);
  if (group.unit() != nullptr && !part_of_gradient(*group.unit()).empty())
    return in_unit(group, part_of_gradient(*group.unit()));
  const ParameterSlice& first = group.slices.front();
  return from(first.parameter->gradient, first.begin + group.elements)
      .sliced(0, first.begin, group.elements);
}

View FlatParameters::weights_of(const ParameterGroup& group, const Tensor& block) const {
  if (block.empty() || group.offset < 0) return from(group.first().weight, group.elements);
  if (rank_.config.shards(Shard::weights)) return in_parts(group, block);
  return block.view().sliced(0, group.offset, group.elements);
}

View FlatParameters::whole_gradient(const Unit& unit) {
  return from(unit.first->gradient, unit.unit->elements);
}

void FlatParameters::mark_unwritten() {
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
    rank_.run(Fill{from(first.gradient, elements), 0});
  }
}

void FlatParameters::zero_unwritten() {
  for (const Parameter* p : parameters_)
    if (p->fresh) p->grad(rank_);
}

void FlatParameters::clear_gradients() {
  if (rank_.config.gradients_come_and_go() || rank_.config.reduces_in_backward()) {
    for (Parameter* p : parameters_)
      if (!is_unstepped(rank_, *p)) p->gradient.release();
    for (Unit& unit : units_) {
      unit.unit->gradients.release();
      unit.gradients.release();
    }
    if (!gradients_.empty()) rank_.run(Fill{gradients_, 0});
    return;
  }
  if (rank_.config.overwrite_gradients) return mark_unwritten();
  if (units_.empty())
    for (const ParameterGroup& group : groups_) rank_.run(Fill{gradient_of(group), 0});
  for (const Unit& unit : units_) rank_.run(Fill{whole_gradient(unit), 0});
}

size_t FlatParameters::index_of(const ParameterUnit& unit) const {
  const auto found = std::ranges::find(units_, &unit, [](const Unit& of) { return of.unit.get(); });
  return static_cast<size_t>(found - units_.begin());
}

const Tensor& FlatParameters::part_of_gradient(const ParameterUnit& unit) const {
  return units_[index_of(unit)].gradients;
}

bool FlatParameters::has_gradients(const ParameterUnit& unit) const {
  return !gradients_.empty() || !part_of_gradient(unit).empty();
}

View FlatParameters::add_gradients(const RankAt& at, const ParameterUnit& unit,
                                   const Tensor& gradients) {
  Tensor& own = units_[index_of(unit)].gradients;
  if (has_gradients(unit)) {
    const int64_t count = gradients.view().size();
    const View sum =
        gradients_.empty() ? own.view() : gradients_.view().sliced(0, unit.part_offset(), count);
    at.run(Copy{gradients, sum, true});
    return sum;
  }
  const DType type = at.rank.config.gradient_type();
  if (gradients.type() == type) {  // becomes the gradient
    own = gradients.labelled(Kind::gradient, {});
  } else {
    own = Tensor(at.rank.ledger, Kind::gradient, type, gradients.shape());
    at.run(Convert{gradients, own});
  }
  return own;
}

void FlatParameters::gather_weights(const Tensor& block, const ParameterUnit* only) const {
  if (rank_.config.shards(Shard::weights)) return;
  Communicator& shards = rank_.groups.shards;
  std::vector<Pending> all;
  for (const Unit& of : units_) {
    if (only != nullptr && of.unit.get() != only) continue;
    const View weights = block.view().sliced(0, of.unit->offset, of.unit->elements);
    all.push_back(shards.all_gather(part_of(weights, shards.rank(), of.unit->parts), weights));
  }
  for (Pending& one : all) one.wait();
}

}  // namespace frugal::engine
