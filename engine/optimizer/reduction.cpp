#include "engine/optimizer/reduction.h"

#include <algorithm>
#include <stdexcept>

#include "engine/comm/communicator.h"

namespace frugal::engine {
namespace {

/// The first group over which a step sums.
Communicator& first_group(const Rank& rank) {
  if (rank.config.shards(Shard::optimizer)) return rank.groups.shards;
  return rank.groups.data.size() > 1 ? rank.groups.data : rank.groups.context;
}

/// Parameters whose gradients passes through a chunk complete together.
struct CompletedTogether {
  int chunk;
  ParameterList parameters;
};

/// All parameters of a stage in the order in which a batch's last passes complete their gradients:
/// the last chunk's first. One that several modules add to is where the last of them is.
std::vector<CompletedTogether> in_order(const Rank& rank,
                                        const std::vector<std::vector<ParameterList>>& completed) {
  std::vector<CompletedTogether> all;
  for (size_t chunk = completed.size(); chunk-- > 0;)
    for (ParameterList module : completed[chunk]) {
      std::ranges::sort(module, std::greater(), &Parameter::offset);
      for (CompletedTogether& before : all)
        std::erase_if(before.parameters,
                      [&](Parameter* p) { return std::ranges::find(module, p) != module.end(); });
      all.push_back({static_cast<int>(chunk), std::move(module)});
    }
  if (!types_of(rank.config).vectors_last) return all;
  // Vectors lie behind everything else (ParameterStore::Types::vectors_last).
  CompletedTogether vectors{0, {}};
  for (CompletedTogether& module : all)
    std::erase_if(module.parameters, [&](Parameter* p) {
      if (p->view().shape.dims > 1) return false;
      vectors.parameters.push_back(p);
      return true;
    });
  all.push_back(std::move(vectors));
  return all;
}

/// True if replicas sum in the weights' type, which is narrower than the gradients'.
bool sums_narrowed(const RunConfig& c) { return c.sum_type() != c.gradient_type(); }

void wait_for(std::vector<Pending>& sums) {
  for (Pending& sum : sums) sum.wait();
  sums.clear();
}

}  // namespace

GradientBuckets::GradientBuckets(const Rank& rank,
                                 const std::vector<std::vector<ParameterList>>& completed)
    : group_(&first_group(rank)) {
  narrow_ = sums_narrowed(rank.config) && group_ != &rank.groups.context;
  int chunk = -1;
  int64_t elements = 0;
  for (const auto& [of, parameters] : in_order(rank, completed)) {
    const bool next_chunk = of != chunk && (chunk < 0 || !rank.config.sums_at_once(rank.stage()));
    if (next_chunk || elements >= rank.config.bucket_elements(rank.stage(), chunk)) {
      buckets_.emplace_back();
      elements = 0;
    }
    chunk = of;
    for (Parameter* p : parameters) {
      add(rank, *p);
      elements += p->view().size();
    }
  }
  for (Bucket& bucket : buckets_) bucket.incomplete = bucket.parameters;
  for (const auto& modules : completed) {
    ParameterList& all = of_chunks_.emplace_back();
    for (const ParameterList& module : modules) all = join({all, module});
    for (const Parameter* p : all) parts_[p].chunks.insert(static_cast<int>(of_chunks_.size()) - 1);
  }
  for (auto& [p, part] : parts_) part.missing = part.chunks;
}

void GradientBuckets::add(const Rank& rank, Parameter& p) {
  const auto follows = [&](const Stretch& stretch) {
    if (p.unit || rank.config.gradients_come_and_go()) return p.unit && stretch.unit == p.unit;
    return p.offset + ParameterStore::padded(p.view().size()) == stretch.parameters.back()->offset;
  };
  size_t bucket = buckets_.size() - 1;
  for (size_t i = 0; i < buckets_.size() && p.unit; ++i)
    if (std::ranges::any_of(buckets_[i].stretches, follows)) bucket = i;
  auto& [stretches, parameters, incomplete] = buckets_[bucket];
  auto found = p.unit ? std::ranges::find_if(stretches, follows)
                      : stretches.end() - (!stretches.empty() && follows(stretches.back()) ? 1 : 0);
  if (found == stretches.end()) found = stretches.insert(found, {.unit = p.unit});
  found->parameters.push_back(&p);
  ++parameters;
  parts_[&p].bucket = bucket;
}

View GradientBuckets::gradients_of(const Stretch& stretch) const {
  const Parameter &first = *stretch.parameters.back(), &last = *stretch.parameters.front();
  const View& begin = first.grad();
  return {
      begin.data,
      begin.type,
      {stretch.unit ? stretch.unit->elements : last.offset + last.view().size() - first.offset}};
}

View GradientBuckets::summed(const Stretch& stretch, const View& all) const {
  return stretch.unit ? part_of(all, group_->rank(), stretch.unit->parts) : all;
}

void GradientBuckets::complete(const RankAt& at, int chunk, const ParameterList& gradients) {
  for (const Parameter* p : gradients) {
    Part& part = parts_.at(p);
    if (part.missing.erase(chunk) == 0 || !part.missing.empty()) continue;
    p->grad(at);  // cleared, where nothing was added to it
    Bucket& bucket = buckets_[part.bucket];
    if (--bucket.incomplete > 0) continue;
    for (Stretch& stretch : bucket.stretches) begin(at.rank, stretch);
  }
}

void GradientBuckets::complete(const RankAt& at, int chunk) {
  complete(at, chunk, of_chunks_.at(static_cast<size_t>(chunk)));
}

void GradientBuckets::begin(Rank& rank, Stretch& stretch) {
  begun_ = true;
  View all = gradients_of(stretch);
  if (rank.config.program.optimizer.flattened_gradients) {
    const Tensor flat = rank.allocate(all.shape, Kind::communication);
    rank.run(Convert{all, flat});
  }
  if (narrow_) {
    stretch.narrow = rank.allocate(all.shape, Kind::communication);
    rank.run(Convert{all, stretch.narrow});
    all = stretch.narrow;
  }
  stretch.sum =
      stretch.unit ? group_->reduce_scatter(all, summed(stretch, all)) : group_->all_reduce(all);
}

void GradientBuckets::finish(Rank& rank, Stretch& stretch) const {
  stretch.sum.wait();
  if (!narrow_) return;
  const View gradients = gradients_of(stretch);
  rank.run(Convert{summed(stretch, stretch.narrow), summed(stretch, gradients)});
  stretch.narrow.release();
}

bool GradientBuckets::finish(Rank& rank, const Communicator& group) {
  if (!begun_ || &group != group_) return false;
  for (Bucket& bucket : buckets_) {
    if (bucket.incomplete > 0)
      throw std::logic_error("gradients are summed that no backward pass has completed");
    for (Stretch& stretch : bucket.stretches) finish(rank, stretch);
    bucket.incomplete = bucket.parameters;
  }
  for (auto& [p, part] : parts_) part.missing = part.chunks;
  begun_ = false;
  return true;
}

void Reduction::add(const RankAt& at, const ParameterUnit& unit, const Tensor& gradients,
                    bool last) {
  const View sum = parameters_.add_gradients(at, unit, gradients);
  Communicator& copies = at.rank.groups.copies;
  if (last && copies.size() > 1) sums_.push_back(copies.all_reduce(sum));
}

void Reduction::await() { wait_for(sums_); }

void Reduction::flatten() const {
  if (!rank_.config.program.optimizer.flattened_gradients || buckets_.begun()) return;
  int64_t elements = 0;
  for (const ParameterGroup& group : parameters_.groups()) elements += group.elements;
  const Tensor flat = rank_.allocate({elements}, Kind::communication);
  int64_t first = 0;
  for (const ParameterGroup& group : parameters_.groups()) {
    rank_.run(
        Convert{parameters_.gradient_of(group), flat.view().sliced(0, first, group.elements)});
    first += group.elements;
  }
}

void Reduction::sum_over_replicas() {
  const RunConfig& c = rank_.config;
  flatten();
  if (c.reduces_in_backward()) return;
  if (!parameters_.units().empty())
    reduce_to_parts();
  else if (c.data_parallel > 1 && sums_narrowed(c))
    sum_narrowed(rank_.groups.data);
  else
    sum_over(rank_.groups.data);
}

void Reduction::sum_over(Communicator& group) {
  if (group.size() == 1 || buckets_.finish(rank_, group)) return;
  std::vector<Pending> sums;
  for (const ParameterGroup& of : parameters_.groups())
    sums.push_back(group.all_reduce(parameters_.gradient_of(of)));
  wait_for(sums);
}

void Reduction::sum_narrowed(Communicator& replicas) {
  if (buckets_.finish(rank_, replicas)) return;
  for (const ParameterGroup& group : parameters_.groups()) {
    const View gradient = parameters_.gradient_of(group);
    const Tensor narrow = rank_.allocate({group.elements}, Kind::communication);
    rank_.run(Convert{gradient, narrow});
    replicas.all_reduce(narrow).wait();
    rank_.run(Convert{narrow, gradient});
  }
}

void Reduction::reduce_to_parts() {
  Communicator& shards = rank_.groups.shards;
  if (buckets_.finish(rank_, shards)) return;
  std::vector<Pending> sums;
  for (const FlatParameters::Unit& of : parameters_.units()) {
    const View all = FlatParameters::whole_gradient(of);
    const View part = part_of(all, shards.rank(), of.unit->parts);
    if (!sums_narrowed(rank_.config)) {
      sums.push_back(shards.reduce_scatter(all, part));
      continue;
    }
    const Tensor rounded = rank_.allocate(all.shape, Kind::communication);
    rank_.run(Convert{all, rounded});
    const View own = part_of(rounded, shards.rank(), of.unit->parts);
    shards.reduce_scatter(rounded, own).wait();
    rank_.run(Convert{own, part});
  }
  wait_for(sums);
}

void Reduction::sum_partial() {
  if (rank_.config.reduces_in_backward())
    await();
  else
    sum_over(parameters_.units().empty() ? rank_.groups.context : rank_.groups.copies);
  std::vector<Pending> sums;
  for (const ParameterGroup& group : parameters_.groups())
    begin_partial(group, parameters_.gradient_of(group), sums);
  wait_for(sums);
}

void Reduction::sum_partial(const ParameterGroup& group, const View& gradients) {
  std::vector<Pending> sums;
  begin_partial(group, gradients, sums);
  wait_for(sums);
}

void Reduction::begin_partial(const ParameterGroup& group, const View& gradients,
                              std::vector<Pending>& sums) const {
  if (rank_.tensor_group.size() == 1) return;
  for (const ParameterSlice& slice : group.slices)
    if (slice.parameter->gradient_is_partial)
      sums.push_back(rank_.tensor_group.all_reduce(group.of_slice(gradients, slice)));
}

void Reduction::complete() {
  parameters_.zero_unwritten();
  sum_partial();
  for (const ParameterGroup& group : parameters_.groups())
    if (group.tied) rank_.groups.ends.all_reduce(parameters_.gradient_of(group)).wait();
}

void complete_gradients(Rank& rank, const ParameterList& parameters) {
  for (const Parameter* p : parameters) {
    const View& gradient = p->grad(rank);
    sum_over(rank.groups.context, gradient);
    if (p->gradient_is_partial) sum_over(rank.tensor_group, gradient);
    if (p->tied) sum_over(rank.groups.ends, gradient);
  }
}

}  // namespace frugal::engine
