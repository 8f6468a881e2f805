#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Part of a tensor that turns, and its direction. x is [positions, groups, 4 · heads, d], of which
/// the part are the second `heads`, or it is all [positions, heads, d].
struct Turn {
  bool part = false, inverse = false;
  int64_t first = 3;
};

Case rotary(const Setting& s, const Turn& turn) {
  const int64_t half = (s.cols + 1) / 2, d = 2 * half, heads = 2, groups = 2;
  const Shape whole = turn.part ? Shape{s.rows, groups, 4 * heads, d} : Shape{s.rows, heads, d};
  Case c;
  c.operands = {{"x", s.type, whole, Role::updated}, {"frequencies", s.wide(), {half}}};
  c.bind = [=](const Views& v) {
    return Rotary{turn.part ? v["x"].sliced(2, heads, heads) : v["x"], v["frequencies"], turn.first,
                  turn.inverse};
  };
  c.prepare = [=](Values& v) {
    for (int64_t i = 0; i < half; ++i)
      at(v["frequencies"], i) =
          std::pow(10000, -static_cast<double>(i) / static_cast<double>(half));
  };
  c.roundings = 8;  // two products and the functions in them
  c.refer<Rotary>([=, a = s.wide()](Expected& e, const Rotary& op) {
    const int64_t per_position = op.x.size() / s.rows;
    for (int64_t pair = 0; pair < op.x.size() / 2; ++pair) {
      const int64_t first = pair / half * d + pair % half;
      const int64_t position = op.first + first / per_position;
      const double angle = static_cast<double>(position) * at(e["frequencies"], pair % half);
      const double cosine = std::cos(angle), sine = (op.inverse ? -1 : 1) * std::sin(angle);
      const double &one = element(op.x, first), &other = element(op.x, first + half);
      const double x = one, y = other;
      // The angle is computed in float64, whatever A is.
      const double reduced = 1 + angle * unit_roundoff(DType::f64) / unit_roundoff(a);
      const double scale = (std::abs(x) + std::abs(y)) * reduced;
      e.set(one, x * cosine - y * sine, scale);
      e.set(other, y * cosine + x * sine, scale);
    }
  });
  return c;
}

/// Copy between parts of two operands.
struct Pattern {
  Shape x_whole, y_whole;
  std::function<View(const View&)> x, y;    ///< views of these parts
  bool accumulate = false, covered = true;  ///< covered: the part of y is all of it
  bool wide_x = false, wide_y = false;      ///< of type A
};

Case copy(const Setting& s, const Pattern& p) {
  Case c;
  c.operands = {{"x", s.narrow_or_wide(!p.wide_x), p.x_whole},
                {"y", s.narrow_or_wide(!p.wide_y), p.y_whole,
                 p.covered && !p.accumulate ? Role::output : Role::updated}};
  c.bind = [=](const Views& v) { return Copy{p.x(v["x"]), p.y(v["y"]), p.accumulate}; };
  c.roundings = p.accumulate ? 1 : 0;  // a copy is exact
  c.refer<Copy>([](Expected& e, const Copy& op) {
    for (int64_t i = 0; i < op.x.size(); ++i) {
      const double &x = element(op.x, i), &y = element(op.y, i);
      e.set(y, op.accumulate ? y + x : x);
    }
  });
  return c;
}

View all_of(const View& v) { return v; }

Pattern whole(const Setting& s) { return {s.shape(), s.shape(), all_of, all_of}; }
/// [s, heads, d] to [heads, s, d].
Pattern transposed(const Setting& s) {
  constexpr int64_t heads = 3;
  const Shape to{heads, s.rows, s.cols};
  const auto turned = [=](const View& v) { return v.strided(0, to, {to[2], heads * to[2], 1}); };
  return {{s.rows, heads, s.cols}, to, turned, all_of};
}
/// Parts of wider tensors of four dimensions.
Pattern parts(const Setting& s) {
  const auto from = [n = s.cols](const View& v) { return v.sliced(2, 1, 2).sliced(3, 1, n); };
  const auto to = [n = s.cols](const View& v) { return v.sliced(2, 0, 2).sliced(3, 2, n); };
  return {{s.rows, 2, 3, s.cols + 1}, {s.rows, 2, 4, s.cols + 2}, from, to, false, false};
}
/// Every row three times.
Pattern repeated(const Setting& s) {
  const Shape to{s.rows, 3, s.cols};
  return {s.shape(), to, [=](const View& v) { return v.strided(0, to, {to[2], 0, 1}); }, all_of};
}
/// The last column, whose last stride says nothing.
Pattern column(const Setting& s) {
  const auto last = [=](const View& v) { return v.strided(s.cols - 1, {s.rows, 1}, {s.cols, 7}); };
  return {s.shape(), {s.rows, 1}, last, all_of};
}
Pattern added(Pattern p) {
  p.accumulate = true;
  return p;
}
Pattern widened(Pattern p) {
  p.wide_y = true;
  return p;
}
Pattern narrowed(Pattern p) {
  p.wide_x = true;
  return p;
}

Case transfer(const Setting& s) {
  Case c;
  c.operands = {{"from", s.type, s.shape()}, {"to", s.type, s.shape(), Role::output}};
  c.bind = [](const Views& v) { return Transfer{v["from"], v["to"]}; };
  c.each("to", [](const Expected& e, int64_t i) { return at(e["from"], i); });  // bytes: exact
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Rotary>() {
  return {{"rotary", with(rotary, Turn{}), {}, {0, 200}},
          {"rotary/inverse", with(rotary, Turn{.inverse = true}), {}, {0, 200}},
          {"rotary/part", with(rotary, Turn{.part = true, .first = 100003}), {}, {0, 392}}};
}

template <>
std::vector<Row> rows_of<Copy>() {
  const auto copied = [](const auto& pattern) {
    return [pattern](const Setting& s) { return copy(s, pattern(s)); };
  };
  const auto sum = [](const Setting& s) { return added(whole(s)); };
  const auto wide_sum = [](const Setting& s) { return added(widened(transposed(s))); };
  const auto narrow = [](const Setting& s) { return narrowed(transposed(s)); };
  const auto narrow_sum = [](const Setting& s) { return added(narrowed(whole(s))); };
  const auto widen = [](const Setting& s) { return widened(parts(s)); };
  return {{"copy", copied(whole), {}, {0, 96}},
          {"copy/transposed", copied(transposed), {}, {0, 288}},
          {"copy/parts", copied(parts), {}, {0, 384}},
          {"copy/repeated", copied(repeated), {}, {0, 192}},
          {"copy/column", copied(column), {}, {0, 24}},
          {"copy/widened", copied(widen), {}, {0, 576}},
          {"copy/narrowed", copied(narrow), {}, {0, 432}},
          {"copy/accumulate", copied(sum), {}, {0, 144}},
          {"copy/accumulate-wide", copied(wide_sum), {}, {0, 720}},
          {"copy/accumulate-narrow", copied(narrow_sum), {}, {0, 192}}};
}

template <>
std::vector<Row> rows_of<Transfer>() {
  return {{"transfer", transfer, {}, {0, 96}}};
}

}  // namespace frugal::kernels::table
