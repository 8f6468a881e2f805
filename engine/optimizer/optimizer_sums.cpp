#include <algorithm>

#include "engine/comm/part_of.h"
#include "engine/optimizer/optimizer.h"

// Sums of gradients over ranks that have the same weights.
namespace frugal::engine {

void Optimizer::flatten_gradients(Rank& rank) const {
  if (!rank.config.program.keeps.flattened_gradients || buckets_.begun()) return;
  int64_t elements = 0;
  for (const Group& group : groups_) elements += group.elements;
  const Tensor flat = rank.allocate({elements}, Kind::communication);
  int64_t first = 0;
  for (const Group& group : groups_) {
    rank.run(Convert{gradient_of(group), flat.view().sliced(0, first, group.elements)});
    first += group.elements;
  }
}

void Optimizer::sum_narrowed(Rank& rank, Communicator& replicas) {
  if (buckets_.finish(rank, replicas)) return;
  for (const Group& group : groups_) {
    const View gradient = gradient_of(group);
    const Tensor narrow = rank.allocate({group.elements}, Kind::communication);
    rank.run(Convert{gradient, narrow});
    replicas.all_reduce(narrow).wait();
    rank.run(Convert{narrow, gradient});
  }
}

void Optimizer::sum_partial_gradients(Rank& rank) {
  if (rank.config.reduces_in_backward())
    await_sums();
  else
    sum_over(rank, units_.empty() ? rank.groups.context : rank.groups.copies);
  if (rank.tensor_group.size() == 1) return;
  std::vector<Pending> sums;
  for (const Group& group : groups_) sum_partial_gradients(rank, group, gradient_of(group), sums);
  for (Pending& sum : sums) sum.wait();
}

void Optimizer::sum_partial_gradients(Rank& rank, const Group& group, const View& gradients,
                                      std::vector<Pending>& sums) {
  if (rank.tensor_group.size() == 1) return;
  for (const Slice& slice : group.slices) {
    const Parameter& p = *slice.parameter;
    if (!p.gradient_is_partial) continue;
    const int64_t first = p.offset < 0 ? 0 : p.offset + slice.begin - group.offset;
    sums.push_back(rank.tensor_group.all_reduce(gradients.sliced(0, first, slice.count)));
  }
}

void Optimizer::sum_over(Rank& rank, Communicator& replicas) {
  if (replicas.size() == 1 || buckets_.finish(rank, replicas)) return;
  std::vector<Pending> sums;
  for (const Group& group : groups_) sums.push_back(replicas.all_reduce(gradient_of(group)));
  for (Pending& sum : sums) sum.wait();
}

void Optimizer::complete_gradients(Rank& rank) {
  clear_fresh(rank);
  sum_partial_gradients(rank);
  for (const Group& group : groups_)
    if (group.tied) rank.groups.ends.all_reduce(gradient_of(group)).wait();
}

void Optimizer::complete_gradients(Rank& rank, const ParameterList& parameters) {
  const auto sum = [](Communicator& group, const View& x) {
    if (group.size() > 1) group.all_reduce(x).wait();
  };
  for (const Parameter* p : parameters) {
    const View& gradient = p->grad(rank);
    sum(rank.groups.context, gradient);
    if (p->gradient_is_partial) sum(rank.tensor_group, gradient);
    if (p->tied) sum(rank.groups.ends, gradient);
  }
}

void Optimizer::sum_over_replicas(Rank& rank) {
  const RunConfig& c = rank.config;
  if (c.reduces_in_backward()) return;
  if (!units_.empty())
    reduce_to_parts(rank);
  else if (c.data_parallel > 1 && c.narrow_reduction && c.state_type() != c.type)
    sum_narrowed(rank, rank.groups.data);
  else
    sum_over(rank, rank.groups.data);
}

/// All but a rank's own part of a unit is of no use to it from then on.
void Optimizer::reduce_to_parts(Rank& rank) {
  if (buckets_.finish(rank, rank.groups.shards)) return;
  const RunConfig& c = rank.config;
  const bool narrow = c.narrow_reduction && c.state_type() != c.type;
  std::vector<Pending> sums;
  for (const Unit& of : units_) {
    const ParameterUnit& unit = *of.unit;
    const View all = {of.first->grad().data, of.first->grad().type, {unit.elements}};
    const View part = part_of(all, part_, unit.parts);
    if (!narrow) {
      sums.push_back(rank.groups.shards.reduce_scatter(all, part));
      continue;
    }
    const Tensor rounded = rank.allocate(all.shape, Kind::communication);
    rank.run(Convert{all, rounded});
    const View own = part_of(rounded, part_, unit.parts);
    rank.groups.shards.reduce_scatter(rounded, own).wait();
    rank.run(Convert{own, part});
  }
  for (Pending& sum : sums) sum.wait();
}

void Optimizer::gather_weights(Rank& rank, const Tensor& block, const ParameterUnit* only) const {
  if (parts_of_weights_) return;
  std::vector<Pending> all;
  for (const Unit& of : units_) {
    if (only != nullptr && of.unit.get() != only) continue;
    const View weights = block.view().sliced(0, of.unit->offset, of.unit->elements);
    all.push_back(rank.groups.shards.all_gather(part_of(weights, part_, of.unit->parts), weights));
  }
  for (Pending& one : all) one.wait();
}

const Tensor& Optimizer::gradients_of(const ParameterUnit& unit) const {
  return std::ranges::find(units_, &unit, [](const Unit& of) { return of.unit.get(); })->gradients;
}

void Optimizer::add_gradients(const RankAt& at, const ParameterUnit& unit, const Tensor& gradients,
                              bool last) {
  const auto own = std::ranges::find(units_, &unit, [](const Unit& of) { return of.unit.get(); });
  const bool first = !has_gradients(unit);
  if (first) own->gradients = first_of(at, gradients);
  const View sum = gradients_.empty()
                       ? own->gradients.view()
                       : gradients_.view().sliced(0, unit.part_offset(), gradients.view().size());
  if (!first) at.run(Copy{gradients, sum, true});
  Communicator& copies = at.rank.groups.copies;
  if (last && copies.size() > 1) sums_.push_back(copies.all_reduce(sum));
}

/// What was summed becomes the gradient, where it has its type.
Tensor Optimizer::first_of(const RankAt& at, const Tensor& gradients) {
  const DType type = at.rank.config.state_type();
  if (gradients.type() == type) return gradients.labelled(Kind::gradient, {});
  Tensor wide(at.rank.ledger, Kind::gradient, type, gradients.shape());
  at.run(Convert{gradients, wide});
  return wide;
}

void Optimizer::await_sums() {
  for (Pending& sum : sums_) sum.wait();
  sums_.clear();
}

void Optimizer::step_in_backward(const RankAt& at, const ParameterUnit& unit, const View& gradients,
                                 const OptimizerOptions& options, const Tensor& weights) {
  begin_step_in_backward(at, options);
  const Tensor wide = at.rank.config.state_type() == gradients.type
                          ? Tensor()
                          : at.allocate(at.rank.config.state_type(), gradients.shape);
  if (!wide.empty()) at.run(Convert{gradients, wide});
  const View& part = wide.empty() ? gradients : wide.view();
  for (Group& group : groups_) {
    if (group.unit() != &unit) continue;
    const View gradient = in_part(group, part, false);
    if (at.rank.groups.copies.size() > 1) at.rank.groups.copies.all_reduce(gradient).wait();
    std::vector<Pending> sums;
    sum_partial_gradients(at.rank, group, gradient, sums);
    for (Pending& sum : sums) sum.wait();
    if (group.counted) at.run(Sum{gradient, squares_, true});
    make_state(at.rank, group, weights);
    std::vector<Tensor> intermediate;
    for (int i = 0; i < 2; ++i) make_intermediate(at, group, intermediate);
    update(at, group, gradient, options, {}, {weights, weights});
  }
  gather_weights(at.rank, weights, &unit);
}

}  // namespace frugal::engine
