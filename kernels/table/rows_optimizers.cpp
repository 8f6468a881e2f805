#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

double wide(float x) { return static_cast<double>(x); }

/// Way of an optimizer that a row takes.
struct Way {
  bool apart = false;      ///< new weights beside the old ones
  bool decoupled = true;   ///< weight decay
  bool has_moment = true;  ///< of Momentum; without one its beta is 0
  int64_t step = 3;        ///< of Adam
  float prediction = 0;
  bool narrow_gradient = false, narrow_moments = false;  ///< of the weights' type
  bool has_master = true;                                ///< where the weights are narrower than A
  bool keeps_state = false;                              ///< and writes new weights alone
  double clip = 0.25;
};

constexpr Way narrow_way{.narrow_gradient = true, .narrow_moments = true, .has_master = false};
constexpr Way narrow_apart{
    .apart = true, .narrow_gradient = true, .narrow_moments = true, .has_master = false};
constexpr Way narrow_ahead{.apart = true,
                           .narrow_gradient = true,
                           .narrow_moments = true,
                           .has_master = false,
                           .keeps_state = true};

WeightUpdate bound(const Views& v, const Way& way) {
  return {.weights = v["weights"],
          .gradient = v["gradient"],
          .master = v["master"],
          .result = v["result"],
          .squared_norm = v["squared_norm"],
          .learning_rate = 0.01F,
          .weight_decay = 0.1F,
          .decoupled = way.decoupled,
          .clip = way.clip,
          .prediction = way.prediction,
          .keeps_state = way.keeps_state};
}

/// Factor of the gradient: a float32, whatever the weights are.
double clipping(const Expected& e, double clip) {
  const double norm = std::sqrt(at(e["squared_norm"], 0));
  return clip > 0 && norm > clip ? wide(static_cast<float>(clip / norm)) : 1;
}

/// The gradient as an optimizer takes it; decay that is not decoupled is part of it.
Rounded gradient_of(const Expected& e, const WeightUpdate& update, int64_t i) {
  const double g = at(e["gradient"], i) * clipping(e, update.clip);
  if (update.decoupled) return {g, std::abs(g)};
  const double w = at(e[e.has("master") ? "master" : "weights"], i);
  const double decay = w * wide(update.weight_decay);
  return {g + decay, std::abs(g) + std::abs(decay)};
}

/// A weight loses `change`, and its decay where that is decoupled.
void move_weight(Expected& e, const WeightUpdate& update, int64_t i, const Rounded& change) {
  const bool with_master = e.has("master");
  const double before = at(e[with_master ? "master" : "weights"], i);
  const double rate = update.decoupled ? wide(update.learning_rate) : 0;
  const double after = before - change.value - rate * wide(update.weight_decay) * before;
  const double scale = std::abs(before) + change.scale;
  const double further = wide(update.prediction);
  e.set(e.has("result") ? "result" : "weights", i, after + further * (after - before),
        (1 + 2 * further) * scale);
  if (with_master && !update.keeps_state) e.set("master", i, after, scale);
}

/// Moment: decay · before + (1 − decay) · added.
Rounded moment_of(double before, const Rounded& added, double decay) {
  return {decay * before + (1 - decay) * added.value,
          decay * std::abs(before) + (1 - decay) * added.scale};
}

/// Narayanan et al. 2021 (arXiv:2006.09503), section 3.1.
void momentum_reference(Expected& e, const Momentum& op) {
  for (int64_t i = 0; i < op.update.weights.size(); ++i) {
    Rounded m = gradient_of(e, op.update, i);
    if (e.has("moment")) {
      m = moment_of(at(e["moment"], i), m, wide(op.beta));
      if (!op.update.keeps_state) e.set("moment", i, m.value, m.scale);
    }
    const double rate = wide(op.update.learning_rate);
    move_weight(e, op.update, i, {rate * m.value, rate * m.scale});
  }
}

/// Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2, both kinds of decay, with the
/// learning rate as schedule.
void adam_reference(Expected& e, const Adam& op) {
  const double beta1 = wide(op.beta1), beta2 = wide(op.beta2);
  const auto step = static_cast<double>(op.step);
  for (int64_t i = 0; i < op.update.weights.size(); ++i) {
    const Rounded g = gradient_of(e, op.update, i);
    const Rounded m = moment_of(at(e["first_moment"], i), g, beta1);
    const Rounded square = {g.value * g.value, g.scale * g.scale};
    const Rounded v = moment_of(at(e["second_moment"], i), square, beta2);
    if (!op.update.keeps_state) {
      e.set("first_moment", i, m.value, m.scale);
      e.set("second_moment", i, v.value, v.scale);
    }
    const double denominator = std::sqrt(v.value / (1 - std::pow(beta2, step))) + wide(op.epsilon);
    const double rate = wide(op.update.learning_rate) / (1 - std::pow(beta1, step)) / denominator;
    move_weight(e, op.update, i, {rate * m.value, rate * m.scale * v.scale / v.value});
  }
}

/// Role of state, which an optimizer keeps from step to step.
Role state_role(const Way& way) { return way.keeps_state ? Role::input : Role::updated; }

/// Case with the operands of every optimizer; its moments follow.
Case weight_update(const Setting& s, const Way& way) {
  const DType a = s.wide();
  const Shape shape = s.shape();
  const bool with_master = (s.type != a && way.has_master) || way.prediction != 0;
  const Role in_place = with_master ? Role::output : Role::updated;
  Case c;
  c.operands = {{"weights", s.type, shape, way.apart ? Role::input : in_place},
                {"gradient", s.narrow_or_wide(way.narrow_gradient), shape},
                {"squared_norm", DType::f64, {1}, Role::input, Draw::positive}};
  if (with_master) c.operands.push_back({"master", a, shape, state_role(way)});
  if (way.apart) {
    c.operands.push_back({"result", s.type, shape, Role::output});
    c.aliases = {{"result", "weights"}};
  }
  c.roundings = 16;  // arithmetic operations on the way to a weight
  return c;
}

Case momentum(const Setting& s, const Way& way) {
  Case c = weight_update(s, way);
  if (way.has_moment)
    c.operands.push_back(
        {"moment", s.narrow_or_wide(way.narrow_moments), s.shape(), state_role(way)});
  c.bind = [way](const Views& v) {
    return Momentum{bound(v, way), v["moment"], way.has_moment ? 0.8F : 0};
  };
  c.refer<Momentum>(momentum_reference);
  return c;
}

Case adam(const Setting& s, const Way& way) {
  Case c = weight_update(s, way);
  const DType type = s.narrow_or_wide(way.narrow_moments);
  c.operands.push_back({"first_moment", type, s.shape(), state_role(way)});
  c.operands.push_back({"second_moment", type, s.shape(), state_role(way), Draw::positive});
  c.bind = [way](const Views& v) {
    return Adam{.update = bound(v, way),
                .first_moment = v["first_moment"],
                .second_moment = v["second_moment"],
                .step = way.step};
  };
  c.refer<Adam>(adam_reference);
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Momentum>() {
  return {{"momentum", with(momentum, Way{}), {}, {0, 528}},
          {"momentum/result", with(momentum, Way{.apart = true}), {}, {0, 528}},
          {"momentum/l2", with(momentum, Way{.decoupled = false}), {}, {0, 528}},
          {"momentum/sgd", with(momentum, Way{.has_moment = false}), {}, {0, 336}},
          {"momentum/sgd-result",
           with(momentum, Way{.apart = true, .has_moment = false}),
           {},
           {0, 336}},
          {"momentum/ahead", with(momentum, Way{.apart = true, .keeps_state = true}), {}, {0, 336}},
          {"momentum/prediction", with(momentum, Way{.prediction = 1}), {}, {0, 528}},
          {"momentum/narrow-gradient", with(momentum, Way{.narrow_gradient = true}), {}, {0, 480}},
          {"momentum/narrow", with(momentum, narrow_way), {}, {0, 240}}};
}

template <>
std::vector<Row> rows_of<Adam>() {
  return {{"adam", with(adam, Way{}), {}, {0, 720}},
          {"adam/not-clipped", with(adam, Way{.clip = 0}), {}, {0, 720}},
          {"adam/below-the-clip", with(adam, Way{.clip = 1e9}), {}, {0, 720}},
          {"adam/first-step", with(adam, Way{.step = 1}), {}, {0, 720}},
          {"adam/result", with(adam, Way{.apart = true}), {}, {0, 720}},
          {"adam/ahead", with(adam, Way{.apart = true, .keeps_state = true}), {}, {0, 432}},
          {"adam/narrow-ahead", with(adam, narrow_ahead), {}, {0, 240}},
          {"adam/l2", with(adam, Way{.decoupled = false}), {}, {0, 720}},
          {"adam/narrow-gradient", with(adam, Way{.narrow_gradient = true}), {}, {0, 672}},
          {"adam/without-master", with(adam, Way{.has_master = false}), {}, {0, 576}},
          {"adam/narrow", with(adam, narrow_way), {}, {0, 336}},
          {"adam/narrow-result", with(adam, narrow_apart), {}, {0, 336}},
          {"adam/prediction", with(adam, Way{.apart = true, .prediction = 1.5F}), {}, {0, 720}}};
}

}  // namespace frugal::kernels::table
