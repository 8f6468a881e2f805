#include "engine/optimizer/gradient_buckets.h"

#include <algorithm>
#include <stdexcept>

#include "engine/comm/part_of.h"

namespace frugal::engine {
namespace {

/// The first group over which a step sums.
Communicator& first_group(const Rank& rank) {
  if (rank.config.shards(Shard::optimizer)) return rank.groups.shards;
  return rank.groups.data.size() > 1 ? rank.groups.data : rank.groups.context;
}

/// All parameters of a stage in the order in which a batch's last passes complete their gradients:
/// the last chunk's first. One that several modules add to is where the last of them is.
ParameterList in_order(const Rank& rank, const std::vector<std::vector<ParameterList>>& completed) {
  ParameterList all;
  for (size_t chunk = completed.size(); chunk-- > 0;)
    for (ParameterList module : completed[chunk]) {
      std::ranges::sort(module, std::greater(), &Parameter::offset);
      for (Parameter* p : module) {
        std::erase(all, p);
        all.push_back(p);
      }
    }
  // Vectors lie behind everything else (ParameterStore::Types::vectors_last).
  if (types_of(rank.config).vectors_last)
    std::stable_partition(all.begin(), all.end(),
                          [](const Parameter* p) { return p->view().shape.dims > 1; });
  return all;
}

}  // namespace

GradientBuckets::GradientBuckets(const Rank& rank,
                                 const std::vector<std::vector<ParameterList>>& completed)
    : group_(&first_group(rank)) {
  const RunConfig& c = rank.config;
  narrow_ = c.narrow_reduction && c.state_type() != c.type && group_ != &rank.groups.context;
  for (Parameter* p : in_order(rank, completed)) {
    const size_t bucket = bucket_for(rank, *p);
    buckets_[bucket].parameters.push_back(p);
    parts_[p].bucket = bucket;
  }
  for (Bucket& bucket : buckets_) bucket.incomplete = bucket.parameters.size();
  for (const auto& modules : completed) {
    ParameterList& all = of_chunks_.emplace_back();
    for (const ParameterList& module : modules) all = join({all, module});
    for (const Parameter* p : all) parts_[p].chunks.insert(static_cast<int>(of_chunks_.size()) - 1);
  }
  for (auto& [p, part] : parts_) part.missing = part.chunks;
}

/// Index of one that takes it in, or of a new one.
size_t GradientBuckets::bucket_for(const Rank& rank, const Parameter& p) {
  const auto takes = [&](const Bucket& bucket) {
    if (p.unit || rank.config.gradients_come_and_go()) return p.unit && bucket.unit == p.unit;
    const Parameter &first = *bucket.parameters.back(), &last = *bucket.parameters.front();
    return p.offset + ParameterStore::padded(p.view().size()) == first.offset &&
           last.offset + last.view().size() - first.offset < rank.config.bucket_elements();
  };
  const auto found = p.unit
                         ? std::ranges::find_if(buckets_, takes)
                         : buckets_.end() - (!buckets_.empty() && takes(buckets_.back()) ? 1 : 0);
  if (found != buckets_.end()) return static_cast<size_t>(found - buckets_.begin());
  buckets_.push_back({.unit = p.unit});
  return buckets_.size() - 1;
}

View GradientBuckets::gradients_of(const Bucket& bucket) const {
  const Parameter &first = *bucket.parameters.back(), &last = *bucket.parameters.front();
  const View& begin = first.grad();
  return {begin.data,
          begin.type,
          {bucket.unit ? bucket.unit->elements : last.offset + last.view().size() - first.offset}};
}

View GradientBuckets::summed(const Bucket& bucket, const View& all) const {
  return bucket.unit ? part_of(all, group_->rank(), bucket.unit->parts) : all;
}

void GradientBuckets::complete(const RankAt& at, int chunk, const ParameterList& gradients) {
  for (const Parameter* p : gradients) {
    Part& part = parts_.at(p);
    if (part.missing.erase(chunk) == 0 || !part.missing.empty()) continue;
    p->grad(at);  // cleared, where nothing was added to it
    Bucket& bucket = buckets_[part.bucket];
    if (--bucket.incomplete == 0) begin(at.rank, bucket);
  }
}

void GradientBuckets::complete(const RankAt& at, int chunk) {
  complete(at, chunk, of_chunks_.at(static_cast<size_t>(chunk)));
}

void GradientBuckets::begin(Rank& rank, Bucket& bucket) {
  begun_ = true;
  View all = gradients_of(bucket);
  if (rank.config.program.keeps.flattened_gradients) {
    const Tensor flat = rank.allocate(all.shape, Kind::communication);
    rank.run(Convert{all, flat});
  }
  if (narrow_) {
    bucket.narrow = rank.allocate(all.shape, Kind::communication);
    rank.run(Convert{all, bucket.narrow});
    all = bucket.narrow;
  }
  bucket.sum =
      bucket.unit ? group_->reduce_scatter(all, summed(bucket, all)) : group_->all_reduce(all);
}

bool GradientBuckets::finish(Rank& rank, const Communicator& group) {
  if (!begun_ || &group != group_) return false;
  for (Bucket& bucket : buckets_) {
    if (bucket.incomplete > 0)
      throw std::logic_error("gradients are summed that no backward pass has completed");
    bucket.sum.wait();
    if (narrow_) {
      const View gradients = gradients_of(bucket);
      rank.run(Convert{summed(bucket, bucket.narrow), summed(bucket, gradients)});
      bucket.narrow.release();
    }
    bucket.incomplete = bucket.parameters.size();
  }
  for (auto& [p, part] : parts_) part.missing = part.chunks;
  begun_ = false;
  return true;
}

}  // namespace frugal::engine
