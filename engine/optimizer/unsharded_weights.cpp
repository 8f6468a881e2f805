#include "engine/optimizer/unsharded_weights.h"

namespace frugal::engine {

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
  for (Arriving& one : arriving_) one.pending.wait();
  arriving_.clear();
  for (Parameter* p : now) p->look_at(p->unit->weights, p->unit->offset);
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
    p->look_away();
    if (!stays(*p->unit)) p->unit->weights.release();
  }
}

void GatheredWeights::end_all() noexcept {
  for (const auto& unit : staying_) unit->weights.release();
  staying_.clear();
}

}  // namespace frugal::engine
