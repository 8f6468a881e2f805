#include <cmath>
#include <numbers>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

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

template <>
std::vector<Row> rows_of<Sum>() {
  return {{"sum", with(sum, false), {}, {0, 56}}, {"sum/squared", with(sum, true), {}, {0, 56}}};
}

template <>
std::vector<Row> rows_of<Fill>() {
  return {{"fill", fill, {}, {0, 48}}};
}

template <>
std::vector<Row> rows_of<Convert>() {
  const auto widen = [](const Setting& s) { return convert(s, s.type, accumulation_type(s.type)); };
  const auto narrow = [](const Setting& s) {
    return convert(s, accumulation_type(s.type), s.type);
  };
  const auto to_f64 = [](const Setting& s) { return convert(s, s.type, DType::f64); };
  const auto from_f64 = [](const Setting& s) { return convert(s, DType::f64, s.type); };
  return {{"convert/widen", widen, {}, {0, 144}},
          {"convert/narrow", narrow, {}, {0, 144}},
          {"convert/to-f64", to_f64, {}, {0, 240}},
          {"convert/from-f64", from_f64, {}, {0, 240}}};
}

template <>
std::vector<Row> rows_of<RandomNormal>() {
  return {{"random-normal", random_normal, {}, {0, 48}}};
}

}  // namespace frugal::kernels::table
