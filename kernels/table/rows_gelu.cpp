#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Evaluating tanh and a handful of products around it.
constexpr double gelu_roundings = 16;

Case gelu(const Setting& s) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}}, {"y", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return Gelu{.x = v["x"], .y = v["y"]}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"y", "x"}};
  c.roundings = gelu_roundings;
  c.reference = [s](Expected& e) {
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
      const double x = at(e["x"], i);
      e.set("y", i, gelu_of(x), std::abs(x));  // 1 + tanh cancels on the left
    }
  };
  return c;
}

Case gelu_backward(const Setting& s) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}},
                {"dy", s.type, {s.rows, s.cols}},
                {"dx", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return GeluBackward{.x = v["x"], .dy = v["dy"], .dx = v["dx"]}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"dx", "dy"}};
  c.roundings = gelu_roundings;
  c.reference = [s](Expected& e) {
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
      const double x = at(e["x"], i), dy = at(e["dy"], i);
      e.set("dx", i, dy * gelu_slope(x), std::abs(dy) * gelu_slope_scale(x));
    }
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Gelu>() {
  return {{"gelu", gelu, {}, {0, 96}}};
}

template <>
std::vector<Row> rows_of<GeluBackward>() {
  return {{"gelu-backward", gelu_backward, {"gelu"}, {0, 144}}};
}

}  // namespace frugal::kernels::table
