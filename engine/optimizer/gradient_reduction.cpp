#include "engine/optimizer/gradient_reduction.h"

#include <utility>

#include "engine/comm/part_of.h"

namespace frugal::engine {

void GradientReduction::add(const RankAt& at, const ParameterList& complete) {
  for (const Parameter* p : complete) p->grad(at);  // those that nothing was added to
  if (at.rank.config.program.keeps.copied_unit_gradients) {
    finish(at);
    copy_in(at, complete);
  }
  for (const Parameter* p : complete) p->gradient.release();
  for (const Parameter* p : complete)
    if (!p->unit->gradients.empty()) start(at, p->unit);
}

void GradientReduction::copy_in(const RankAt& at, const ParameterList& complete) {
  for (const Parameter* p : complete) {
    const View all = gradients_of(at, *p->unit).view();
    at.run(Copy{p->grad().flat(), all.sliced(0, p->offset - p->unit->offset, p->grad().size())});
  }
}

void GradientReduction::start(const RankAt& at, const std::shared_ptr<ParameterUnit>& unit) {
  finish(at);
  const RunConfig& c = at.rank.config;
  InFlight next{
      .unit = unit, .all = std::exchange(unit->gradients, Tensor()), .part = {}, .sum = {}};
  if (c.narrow_reduction && c.type != next.all.type()) {
    const Tensor wide =
        std::exchange(next.all, at.allocate(c.type, next.all.shape(), Kind::communication));
    at.run(Convert{wide, next.all});
  }
  if (c.program.keeps.copied_unit_gradients && is_there_(*unit))
    next.part = next.all.with_view(part_of(next.all, at.rank.groups.shards.rank(), unit->parts));
  else
    next.part = at.allocate(next.all.type(), {unit->elements / unit->parts}, Kind::communication);
  next.sum = at.rank.groups.shards.reduce_scatter(next.all, next.part);
  in_flight_ = std::move(next);
}

void GradientReduction::finish(const RankAt& at) {
  if (!in_flight_) return;
  in_flight_->sum.wait();
  in_flight_->all.release();
  take_(at, *in_flight_->unit, in_flight_->part);
  in_flight_.reset();
}

}  // namespace frugal::engine
