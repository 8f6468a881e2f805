#include "engine/optimizer/weight_versions.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace frugal::engine {

WeightVersions::WeightVersions(ParameterList parameters, Tensor block)
    : parameters_(std::move(parameters)) {
  blocks_.emplace(0, std::move(block));
}

void WeightVersions::use(Rank& rank, int version) {
  const auto found = blocks_.find(version);
  if (found == blocks_.end())
    throw std::logic_error(fmt::format("version {} of the weights is not there", version));
  if (version == used_) return;
  bind(version);
  RankAt(rank).event(ModelEvent::version_used, found->second);
}

void WeightVersions::announce_step(const RankAt& at) const {
  if (blocks() == 1) return;
  for (Parameter* p : parameters_) at.event(ModelEvent::weight_stepped, p->weight);
}

void WeightVersions::bind(int version) {
  const Tensor& block = blocks_.at(version);
  used_ = version;
  for (Parameter* p : parameters_) p->bind(block);
}

/// Allocates a block like that, with as much memory as float32 takes if a program keeps it so.
Tensor WeightVersions::new_block(Rank& rank, const Tensor& like) const {
  const bool wide = rank.config.program.weights.float32_versions;
  const DType type = wide ? accumulation_type(like.type()) : like.type();
  const Tensor block = RankAt(rank).allocate(type, like.shape(),
                                             pieces_of(rank.config, parameters_), Kind::parameter);
  return block.with_view({block.view().data, like.type(), like.shape()});
}

WeightBlocks WeightVersions::advance(Rank& rank, bool previous_is_needed) {
  const int version = newest();
  const Tensor from = blocks_.at(version);
  Tensor to = from;
  if (!previous_is_needed) {
    blocks_.erase(version);
    // The block that the parameters look at has become the next version.
    if (used_ == version) used_ = version + 1;
  } else if (!free_.empty()) {
    to = std::move(free_.back());
    free_.pop_back();
  } else {
    to = new_block(rank, from);
  }
  blocks_.emplace(version + 1, to);
  return {from, to};
}

void WeightVersions::resume(Rank& rank, int version, bool previous_is_needed) {
  const Tensor block = blocks_.rbegin()->second;
  blocks_.clear();
  blocks_.emplace(version, block);
  used_ = version;
  if (previous_is_needed) blocks_.emplace(version - 1, new_block(rank, block));
}

Tensor WeightVersions::exchange(Tensor block) {
  Tensor before = std::exchange(blocks_.rbegin()->second, std::move(block));
  if (used_ == newest()) bind(newest());
  return before;
}

void WeightVersions::drop(int version) {
  if (version == newest()) return;
  const auto found = blocks_.find(version);
  if (found == blocks_.end()) return;
  free_.push_back(std::move(found->second));
  blocks_.erase(found);
}

GatheredWeights::~GatheredWeights() {
  for (Arriving& one : arriving_) {
    {
      const Pending ends_here = std::move(one.pending);
    }  // before the memory that it writes to goes
    one.unit->weights.release();
  }
  end_all();
}

void GatheredWeights::gather(const RankAt& at, const ParameterList& parameters) {
  for (const Parameter* p : parameters) {
    ParameterUnit& unit = *p->unit;
    if (!unit.weights.empty()) continue;
    unit.weights = at.allocate(parts_.type(), {unit.elements}, Kind::communication);
    const View own = parts_.view().sliced(0, unit.part_offset(), unit.elements / unit.parts);
    arriving_.push_back({p->unit, at.rank.groups.shards.all_gather(own, unit.weights)});
  }
}

void GatheredWeights::begin(const RankAt& at, const ParameterList& now, const ParameterList& next) {
  gather(at, now);
  for (const Parameter* p : now)
    if (last_ && stays(*p->unit)) staying_.push_back(p->unit);
  const bool came = !arriving_.empty();
  for (Arriving& one : arriving_) {
    one.pending.wait();
    at.event(ModelEvent::unit_gathered, one.unit->weights);
  }
  arriving_.clear();
  for (Parameter* p : now) p->bind(p->unit->weights, p->unit->offset);
  gather(at, next);
  if (layers_stay_ && came && arriving_.empty() && now.front()->unit->layer >= 0)
    keep_buffer(at, *now.front()->unit);
}

void GatheredWeights::keep_buffer(const RankAt& at, const ParameterUnit& unit) {
  buffer_ = at.allocate(parts_.type(), {unit.elements}, Kind::communication);
  at.run(Copy{unit.weights, buffer_});
}

void GatheredWeights::end(const ParameterList& now) noexcept {
  for (Parameter* p : now) {
    p->unbind();
    if (!stays(*p->unit)) p->unit->weights.release();
  }
}

void GatheredWeights::end_all() noexcept {
  for (const auto& unit : staying_) unit->weights.release();
  staying_.clear();
}

}  // namespace frugal::engine
