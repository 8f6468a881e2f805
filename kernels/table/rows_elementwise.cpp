#include <cmath>
#include <numbers>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

Case sum(const Setting& s, bool squared) {
  Case c;
  c.operands = {{"x", s.type, s.shape()}, {"total", DType::f64, {1}, Role::updated}};
  c.bind = [squared](const Views& v) { return Sum{v["x"], v["total"], squared}; };
  // Partial sums may be of type A, though the total is of float64.
  c.roundings =
      static_cast<double>(s.size() + 2) * unit_roundoff(s.wide()) / unit_roundoff(DType::f64);
  c.reference = [squared](Expected& e) {
    for (const double x : e["x"]) e.add("total", 0, squared ? x * x : x);
  };
  return c;
}

Case fill(const Setting& s) {
  constexpr float value = -0.3F;
  Case c;
  c.operands = {{"x", s.type, s.shape(), Role::output}};
  c.bind = [](const Views& v) { return Fill{v["x"], value}; };
  c.each("x", [](const Expected&, int64_t) { return static_cast<double>(value); });  // exact
  return c;
}

Case convert(const Setting& s, DType from, DType to) {
  Case c;
  c.operands = {{"x", from, s.shape()}, {"y", to, s.shape(), Role::output}};
  c.bind = [](const Views& v) { return Convert{v["x"], v["y"]}; };
  c.each("y", [](const Expected& e, int64_t i) { return at(e["x"], i); });  // to nearest even
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
  c.operands = {{"x", s.type, s.shape(), Role::output}};
  c.bind = [=](const Views& v) { return RandomNormal{v["x"], deviation, stream, index}; };
  c.roundings = 64;  // a logarithm near 0 and a sine near its zeros lose some digits
  c.each("x", [=, wide = static_cast<double>(deviation)](const Expected&, int64_t i) {
    return Rounded{wide * normal(stream, index.at(i)), wide};
  });
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
  const auto widen = [](const Setting& s) { return convert(s, s.type, s.wide()); };
  const auto narrow = [](const Setting& s) { return convert(s, s.wide(), s.type); };
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
