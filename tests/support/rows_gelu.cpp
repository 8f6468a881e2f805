#include <cmath>

#include "tests/support/operation_table.h"
#include "tests/support/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Evaluating tanh and a handful of products around it.
constexpr double function_roundings = 16;

/// Wide enough to reach both tails.
void widen(Values& v) {
  for (double& x : v["x"]) x *= 3;
}

Case gelu(const Setting& s) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}}, {"y", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [](const Views& v) { return Gelu{.x = v["x"], .y = v["y"]}; };
  c.prepare = widen;
  c.aliases = {{"y", "x"}};
  c.roundings = function_roundings;
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
  c.prepare = widen;
  c.aliases = {{"dx", "dy"}};
  c.roundings = function_roundings;
  c.reference = [s](Expected& e) {
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
      const double x = at(e["x"], i), dy = at(e["dy"], i);
      e.set("dx", i, dy * gelu_slope(x), std::abs(dy) * gelu_slope_scale(x));
    }
  };
  return c;
}

}  // namespace

std::vector<Row> gelu_rows() {
  return {{"gelu", gelu, {}, {0, 96}}, {"gelu-backward", gelu_backward, {"gelu"}, {0, 144}}};
}

}  // namespace frugal::kernels::table
