#include "engine/optimizer/weight_versions.h"

#include <fmt/format.h>

#include <algorithm>
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
    one.buffer.release();
  }
  end_all();
}

void GatheredWeights::gather(const RankAt& at, const ParameterList& parameters) {
  for (const Parameter* p : parameters) {
    ParameterUnit& unit = *p->unit;
    const auto arrives = [&](const Arriving& one) { return one.unit == p->unit; };
    if (!unit.weights.empty() || std::ranges::any_of(arriving_, arrives)) continue;
    const int64_t count = unit.elements / unit.parts;
    View own = parts_.view().sliced(0, unit.part_offset(), count);
    Tensor narrow;  // of parts that are kept in float32
    if (choices_.float32_parts) {
      narrow = at.allocate_for(MemoryOf::gathers, parts_.type(), {count}, Kind::communication);
      at.run(Convert{View(nullptr, accumulation_type(parts_.type()), {count}), narrow});
      own = narrow;
    }
    Tensor all =
        at.allocate_for(MemoryOf::gathers, parts_.type(), {unit.elements}, Kind::communication);
    Pending pending = at.rank.groups.shards.all_gather(own, all);
    if (!choices_.copied_units) unit.weights = std::exchange(all, Tensor());
    arriving_.push_back({p->unit, std::move(all), std::move(pending)});
  }
}

void GatheredWeights::receive(const RankAt& at, const ParameterList& now) {
  if (!arriving_.empty()) read_.clear();
  for (Arriving& one : arriving_) {
    one.pending.wait();
    ParameterUnit& unit = *one.unit;
    at.event(ModelEvent::unit_gathered, one.buffer.empty() ? unit.weights : one.buffer);
    if (one.buffer.empty()) continue;
    unit.weights =
        at.allocate(parts_.type(), {unit.elements}, pieces_in(unit, now), Kind::communication);
    at.run(Copy{one.buffer, unit.weights});
    if (use_ != Use::backward) read_.push_back(std::move(one.buffer));
  }
  arriving_.clear();
}

void GatheredWeights::begin(const RankAt& at, const ParameterList& now, const ParameterList& next) {
  gather(at, now);
  for (const Parameter* p : now)
    if (use_ != Use::before_backward && stays(*p->unit)) staying_.push_back(p->unit);
  const bool came = !arriving_.empty();
  receive(at, now);
  for (Parameter* p : now) p->bind(p->unit->weights, p->unit->offset);
  gather(at, next);
  const ParameterUnit& unit = *now.front()->unit;
  if (choices_.layers_stay && !choices_.copied_units && use_ == Use::before_backward && came &&
      arriving_.empty() && unit.layer >= 0)
    keep_buffer(at, unit);
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
