#include <cmath>
#include <numbers>

#include "tests/support/operation_table.h"
#include "tests/support/oracle.h"

namespace frugal::table {
namespace {

/// Evaluating tanh and a handful of products around it.
constexpr double function_roundings = 16;

constexpr double root_two_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

double gelu_tanh(double x) { return std::tanh(root_two_over_pi * (x + 0.044715 * x * x * x)); }

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
      e.set("y", i, x * (1 + gelu_tanh(x)) / 2, std::abs(x));  // 1 + tanh cancels on the left
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
      const double x = at(e["x"], i), t = gelu_tanh(x), dy = at(e["dy"], i);
      const double inner = root_two_over_pi * (1 + 3 * 0.044715 * x * x);
      e.set("dx", i, dy * ((1 + t) / 2 + x * (1 - t * t) * inner / 2),
            std::abs(dy) * (1 + std::abs(x) * inner));  // 1 − tanh² cancels in both tails
    }
  };
  return c;
}

}  // namespace

std::vector<Row> gelu_rows() {
  return {{"gelu", gelu, {}, {0, 96}}, {"gelu-backward", gelu_backward, {"gelu"}, {0, 144}}};
}

}  // namespace frugal::table
