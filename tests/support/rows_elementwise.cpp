#include <cmath>
#include <numbers>

#include "tests/support/operation_table.h"
#include "tests/support/oracle.h"

namespace frugal::table {
namespace {

/// Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2, with the learning rate as schedule.
void adam_reference(Expected& e, const Adam& adam, int64_t size) {
  const auto wide = [](float x) { return static_cast<double>(x); };
  const double beta1 = wide(adam.beta1), beta2 = wide(adam.beta2);
  const bool with_master = e.has("master");
  const auto step = static_cast<double>(adam.step);
  for (int64_t i = 0; i < size; ++i) {
    const double g = at(e["gradient"], i) * wide(adam.gradient_scale);
    const double m_before = at(e["first_moment"], i), v_before = at(e["second_moment"], i);
    const double m = beta1 * m_before + (1 - beta1) * g;
    const double v = beta2 * v_before + (1 - beta2) * g * g;
    const double m_scale = beta1 * std::abs(m_before) + (1 - beta1) * std::abs(g);
    const double denominator = std::sqrt(v / (1 - std::pow(beta2, step))) + wide(adam.epsilon);
    const double rate = wide(adam.learning_rate) / (1 - std::pow(beta1, step)) / denominator;
    const double w_before = at(e[with_master ? "master" : "weights"], i);
    const double w =
        w_before - rate * m - wide(adam.learning_rate) * wide(adam.weight_decay) * w_before;
    const double w_scale = std::abs(w_before) + rate * m_scale;
    e.set("first_moment", i, m, m_scale);
    e.set("second_moment", i, v);
    e.set("weights", i, w, w_scale);
    if (with_master) e.set("master", i, w, w_scale);
  }
}

Case adam(const Setting& s, int64_t step) {
  const DType a = accumulation_type(s.type);
  const Shape shape = {s.rows, s.cols};
  const bool with_master = s.type != a;
  Adam attributes{};
  attributes.learning_rate = 0.01F;
  attributes.weight_decay = 0.1F;
  attributes.gradient_scale = 0.5F;
  attributes.step = step;
  Case c;
  c.operands = {{"weights", s.type, shape, with_master ? Role::output : Role::updated},
                {"gradient", a, shape},
                {"first_moment", a, shape, Role::updated},
                {"second_moment", a, shape, Role::updated, Draw::positive}};
  if (with_master) c.operands.push_back({"master", a, shape, Role::updated});
  c.bind = [attributes](const Views& v) {
    Adam operation = attributes;
    operation.weights = v["weights"];
    operation.gradient = v["gradient"];
    operation.master = v["master"];
    operation.first_moment = v["first_moment"];
    operation.second_moment = v["second_moment"];
    return operation;
  };
  c.roundings = 16;  // arithmetic operations on the way to a weight
  c.reference = [=](Expected& e) { adam_reference(e, attributes, shape.size()); };
  return c;
}

Case sum(const Setting& s, bool squared) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}}, {"total", DType::f64, {1}, Role::updated}};
  c.bind = [squared](const Views& v) {
    return Sum{.x = v["x"], .total = v["total"], .squared = squared};
  };
  // Partial sums may be of type A, though the total is of float64.
  c.roundings = static_cast<double>(s.rows * s.cols + 2) *
                unit_roundoff(accumulation_type(s.type)) / unit_roundoff(DType::f64);
  c.reference = [squared](Expected& e) {
    double total = at(e["total"], 0), magnitude = std::abs(total);
    for (const double x : e["x"]) {
      total += squared ? x * x : x;
      magnitude += squared ? x * x : std::abs(x);
    }
    e.set("total", 0, total, magnitude);
  };
  return c;
}

Case fill(const Setting& s) {
  constexpr float value = -0.3F;
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return Fill{.x = v["x"], .value = value}; };
  c.reference = [s](Expected& e) {  // one conversion: exact
    for (int64_t i = 0; i < s.rows * s.cols; ++i) e.set("x", i, static_cast<double>(value));
  };
  return c;
}

Case convert(const Setting& s, DType from, DType to) {
  Case c;
  c.operands = {{"x", from, {s.rows, s.cols}}, {"y", to, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return Convert{.x = v["x"], .y = v["y"]}; };
  c.reference = [s](Expected& e) {  // rounds to nearest even: exact
    for (int64_t i = 0; i < s.rows * s.cols; ++i) e.set("y", i, at(e["x"], i));
  };
  return c;
}

/// Box and Muller 1958: words 0 and 1 of a group make its elements 0 and 1, words 2 and 3 the
/// others.
double normal(const RandomStream& stream, int64_t element) {
  const auto words = words_of(stream, element / 4);
  const auto pair = static_cast<size_t>(element % 4 / 2 * 2);
  const double radius =
      std::sqrt(-2 * std::log((static_cast<double>(words[pair]) + 0.5) * 0x1p-32));
  const double angle = 2 * std::numbers::pi * static_cast<double>(words[pair + 1]) * 0x1p-32;
  return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

Case random_normal(const Setting& s) {
  constexpr float deviation = 0.02F;
  const RandomStream stream = {s.seed, 1, 2};
  const GlobalIndex index = scattered(s.seed, s.cols);
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [=](const Views& v) {
    return RandomNormal{.x = v["x"], .deviation = deviation, .stream = stream, .index = index};
  };
  c.roundings = 64;  // a logarithm near 0 and a sine near its zeros lose some digits
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
      e.set("x", i, static_cast<double>(deviation) * normal(stream, index.at(i)),
            static_cast<double>(deviation));
    }
  };
  return c;
}

}  // namespace

std::vector<Row> elementwise_rows() {
  const auto adam_at = [](int64_t step) { return [=](const Setting& s) { return adam(s, step); }; };
  const auto sum_of = [](bool squared) {
    return [=](const Setting& s) { return sum(s, squared); };
  };
  const auto widen = [](const Setting& s) { return convert(s, s.type, accumulation_type(s.type)); };
  const auto narrow = [](const Setting& s) {
    return convert(s, accumulation_type(s.type), s.type);
  };
  const auto to_f64 = [](const Setting& s) { return convert(s, s.type, DType::f64); };
  const auto from_f64 = [](const Setting& s) { return convert(s, DType::f64, s.type); };
  return {{"adam", adam_at(3), {}, {0, 720}},
          {"adam/first-step", adam_at(1), {}, {0, 720}},
          {"sum", sum_of(false), {}, {0, 56}},
          {"sum/squared", sum_of(true), {}, {0, 56}},
          {"fill", fill, {}, {0, 48}},
          {"convert/widen", widen, {}, {0, 144}},
          {"convert/narrow", narrow, {}, {0, 144}},
          {"convert/to-f64", to_f64, {}, {0, 240}},
          {"convert/from-f64", from_f64, {}, {0, 240}},
          {"random-normal", random_normal, {}, {0, 48}}};
}

}  // namespace frugal::table
