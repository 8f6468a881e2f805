#include "engine/effect.h"

#include "engine/program/behaviour.h"
#include "engine/rank.h"

namespace frugal::engine {

Extras Extras::until(ModelEvent event) const {
  Extras some;
  for (const auto& [end, tensor] : held_)
    if (end == event) some.hold(tensor, end);
  return some;
}

std::vector<Tensor*> Extras::tensors() {
  std::vector<Tensor*> all;
  for (auto& [end, tensor] : held_) all.push_back(&tensor);
  return all;
}

void RankAt::imitate(ModelEvent what, Tensor& x, Extras& extras, Tensor* other) const {
  for (const bool last : {false, true})
    for (const Behaviour* behaviour : rank.config.program.behaviours())
      for (const Effect& effect : behaviour->effects)
        if (effect.at == what && effect.last == last)
          effect.does({*this, x, extras, other, effect.until});
  extras.end(what);
}

namespace effects {
namespace {

void hold(const Occasion& o, const Tensor& tensor, Counted counted = Counted::workspace) {
  if (counted == Counted::activation) tensor.labelled(Kind::activation, o.at.place);
  o.extras.hold(tensor, o.until);
}

}  // namespace

Effect hold(ModelEvent at, ModelEvent until, Counted counted) {
  return {at, until, [counted](const Occasion& o) { hold(o, o.x, counted); }};
}

Effect release(ModelEvent at) {
  return {at, at, [](const Occasion& o) { o.x.release(); }, true};
}

Effect copy(ModelEvent at, ModelEvent until) {
  return {at, until, [](const Occasion& o) {
            hold(o, o.x);
            o.x = o.at.copied(o.x);
          }};
}

Effect widen(ModelEvent at, ModelEvent until) {
  return {at, until, [](const Occasion& o) {
            hold(o, o.x);
            o.x = o.at.converted(o.x, accumulation_type(o.x.type()));
          }};
}

Effect copies_beside(ModelEvent at, ModelEvent until, int count, Counted counted) {
  return {at, until, [count, counted](const Occasion& o) {
            for (int i = 0; i < count; ++i) hold(o, o.at.copied(o.x), counted);
          }};
}

Effect memory_beside(ModelEvent at, ModelEvent until, int count) {
  return {at, until, [count](const Occasion& o) {
            for (int i = 0; i < count; ++i) hold(o, o.at.allocate(o.x.type(), o.x.shape()));
          }};
}

Effect wide_memory_beside(ModelEvent at, ModelEvent until, int count) {
  return {at, until, [count](const Occasion& o) {
            for (int i = 0; i < count; ++i)
              hold(o, o.at.allocate(accumulation_type(o.x.type()), o.x.shape()));
          }};
}

Effect elsewhere(ModelEvent at) {
  return {at, at, [](const Occasion& o) { o.x = o.at.allocate(o.x.type(), o.x.shape()); }};
}

Effect kernel(ModelEvent at, double bytes, int launches) {
  return {at, at, [bytes, launches](const Occasion& o) {
            if (o.at.rank.device.backed()) return;  // a described machine's time alone
            // A copy reads and writes each byte.
            const double each = bytes * static_cast<double>(o.x.view().bytes()) / (2 * launches);
            const View moved{nullptr, DType::u8, {static_cast<int64_t>(each)}};
            for (int i = 0; i < launches; ++i) o.at.run(Copy{moved, moved});
          }};
}

Effect only(When when, Effect effect) {
  effect.does = [when, does = std::move(effect.does)](const Occasion& o) {
    if (when(o.at)) does(o);
  };
  return effect;
}

}  // namespace effects
}  // namespace frugal::engine
