#include "engine/train/gathered_weights.h"

namespace frugal::engine {

GatheredWeights::~GatheredWeights() {
  for (Arriving& one : arriving_) {
    {
      const Pending ends_here = std::move(one.pending);
    }  // before the memory that it writes to goes
    one.unit->weights.release();
  }
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
  for (Arriving& one : arriving_) one.pending.wait();
  arriving_.clear();
  for (Parameter* p : now) p->look_at(p->unit->weights, p->unit->offset);
  gather(at, next);
}

void GatheredWeights::end(const ParameterList& now) noexcept {
  for (Parameter* p : now) {
    p->look_away();
    p->unit->weights.release();
  }
}

}  // namespace frugal::engine
