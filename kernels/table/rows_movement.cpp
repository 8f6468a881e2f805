#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Where a view's elements lie in its operand.
struct Placement {
  int64_t first = 0;
  Shape shape;
  std::array<int64_t, Shape::max_dims> stride{};

  View of(const View& operand) const { return operand.strided(first, shape, stride); }
  /// Where element i, counted in the order of the shape, lies.
  int64_t at(int64_t i) const {
    int64_t where = first;
    for (int dim = shape.dims - 1; dim >= 0; --dim) {
      where += i % shape[dim] * stride[static_cast<size_t>(dim)];
      i /= shape[dim];
    }
    return where;
  }
};

/// Which part of a tensor turns, and how. x is [positions, groups, 4 · heads, d], of which the part
/// are the second `heads`, or it is all [positions, heads, d].
struct Turn {
  bool part = false, inverse = false;
  int64_t first = 3;
};

Case rotary(const Setting& s, const Turn& turn) {
  const DType a = accumulation_type(s.type);
  const int64_t half = (s.cols + 1) / 2, d = 2 * half, heads = 2, groups = 2;
  const int64_t head = d, group = 4 * heads * d;
  const Shape whole = turn.part ? Shape{s.rows, groups, 4 * heads, d} : Shape{s.rows, heads, d};
  const Placement x =
      turn.part ? Placement{heads * d, {s.rows, groups, heads, d}, {groups * group, group, head, 1}}
                : Placement{0, whole, {heads * d, head, 1}};
  Case c;
  c.operands = {{"x", s.type, whole, Role::updated}, {"frequencies", a, {half}}};
  c.bind = [=](const Views& v) {
    return Rotary{.x = x.of(v["x"]),
                  .frequencies = v["frequencies"],
                  .first = turn.first,
                  .inverse = turn.inverse};
  };
  c.prepare = [=](Values& v) {
    for (int64_t i = 0; i < half; ++i)
      at(v["frequencies"], i) =
          std::pow(10000, -static_cast<double>(i) / static_cast<double>(half));
  };
  c.roundings = 8;  // two products and the functions in them
  c.reference = [=](Expected& e) {
    const int64_t per_position = x.shape.size() / s.rows;
    for (int64_t pair = 0; pair < x.shape.size() / 2; ++pair) {
      const int64_t element = pair / half * d + pair % half;
      const int64_t position = turn.first + element / per_position;
      const double angle = static_cast<double>(position) * at(e["frequencies"], pair % half);
      const double cosine = std::cos(angle), sine = (turn.inverse ? -1 : 1) * std::sin(angle);
      const int64_t i = x.at(element), j = x.at(element + half);
      const double before_i = at(e["x"], i), before_j = at(e["x"], j);
      // The angle is computed in float64, whatever A is.
      const double reduced = 1 + angle * unit_roundoff(DType::f64) / unit_roundoff(a);
      const double scale = (std::abs(before_i) + std::abs(before_j)) * reduced;
      e.set("x", i, before_i * cosine - before_j * sine, scale);
      e.set("x", j, before_j * cosine + before_i * sine, scale);
    }
  };
  return c;
}

/// A copy between parts of operands of these shapes.
struct Pattern {
  Shape x_whole, y_whole;
  Placement x, y;
  bool accumulate = false;
  bool wide_x = false, wide_y = false;  ///< of type A
};

Case copy(const Setting& s, const Pattern& p) {
  const DType wide = accumulation_type(s.type);
  const bool covered = p.y.shape.size() == p.y_whole.size() && !p.accumulate;
  Case c;
  c.operands = {{"x", p.wide_x ? wide : s.type, p.x_whole},
                {"y", p.wide_y ? wide : s.type, p.y_whole, covered ? Role::output : Role::updated}};
  c.bind = [=](const Views& v) {
    return Copy{.x = p.x.of(v["x"]), .y = p.y.of(v["y"]), .accumulate = p.accumulate};
  };
  c.roundings = p.accumulate ? 1 : 0;  // a copy is exact
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < p.x.shape.size(); ++i) {
      const double x = at(e["x"], p.x.at(i)), before = at(e["y"], p.y.at(i));
      e.set("y", p.y.at(i), p.accumulate ? before + x : x);
    }
  };
  return c;
}

Placement contiguous(const Shape& shape) { return {0, shape, View(nullptr, {}, shape).stride}; }

Pattern whole(const Setting& s) {
  const Shape shape{s.rows, s.cols};
  return {shape, shape, contiguous(shape), contiguous(shape)};
}
/// [s, heads, d] to [heads, s, d].
Pattern transposed(const Setting& s) {
  constexpr int64_t heads = 3;
  const Shape to{heads, s.rows, s.cols};
  return {{s.rows, heads, s.cols}, to, {0, to, {s.cols, heads * s.cols, 1}}, contiguous(to)};
}
/// Parts of wider tensors of four dimensions.
Pattern parts(const Setting& s) {
  const Shape from{s.rows, 2, 3, s.cols + 1}, to{s.rows, 2, 4, s.cols + 2};
  const Shape part{s.rows, 2, 2, s.cols};
  const auto strides = [](const Shape& shape) { return contiguous(shape).stride; };
  return {from, to, {s.cols + 2, part, strides(from)}, {2, part, strides(to)}};
}
/// Every row three times.
Pattern repeated(const Setting& s) {
  const Shape to{s.rows, 3, s.cols};
  return {{s.rows, s.cols}, to, {0, to, {s.cols, 0, 1}}, contiguous(to)};
}
/// The last column, whose last stride says nothing.
Pattern column(const Setting& s) {
  const Shape to{s.rows, 1};
  return {{s.rows, s.cols}, to, {s.cols - 1, to, {s.cols, 7}}, contiguous(to)};
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
  c.operands = {{"from", s.type, {s.rows, s.cols}}, {"to", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return Transfer{.from = v["from"], .to = v["to"]}; };
  c.reference = [s](Expected& e) {  // bytes: exact
    for (int64_t i = 0; i < s.rows * s.cols; ++i) e.set("to", i, at(e["from"], i));
  };
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
