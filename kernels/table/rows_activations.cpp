#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Evaluating tanh and a handful of products around it.
constexpr double gelu_roundings = 16;

Case gelu(const Setting& s) {
  Case c;
  c.operands = {{"x", s.type, s.shape()}, {"y", s.type, s.shape(), Role::output}};
  c.bind = [](const Views& v) { return Gelu{v["x"], v["y"]}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"y", "x"}};
  c.roundings = gelu_roundings;
  c.each("y", [](const Expected& e, int64_t i) {
    const double x = at(e["x"], i);
    return Rounded{gelu_of(x), std::abs(x)};  // 1 + tanh cancels on the left
  });
  return c;
}

Case gelu_backward(const Setting& s) {
  Case c;
  c.operands = {
      {"x", s.type, s.shape()}, {"dy", s.type, s.shape()}, {"dx", s.type, s.shape(), Role::output}};
  c.bind = [](const Views& v) { return GeluBackward{v["x"], v["dy"], v["dx"]}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"dx", "dy"}};
  c.roundings = gelu_roundings;
  c.each("dx", [](const Expected& e, int64_t i) {
    const double x = at(e["x"], i), dy = at(e["dy"], i);
    return Rounded{dy * gelu_slope(x), std::abs(dy) * gelu_slope_scale(x)};
  });
  return c;
}

/// Evaluating an exponential and a handful of products around it; in bf16 kernels may compute one
/// with a relative error of 3e-6.
constexpr double gated_roundings = 64;

/// The gate and its derivative, with what their rounding errors are relative to: the exponent's is
/// proportional to x, and 1 ± tanh cancels.
struct Gated {
  double value, scale, slope, slope_scale;

  Gated(Gate gate, double x) {
    if (gate == Gate::gelu) {
      value = gelu_of(x), scale = std::abs(x);
      slope = gelu_slope(x), slope_scale = gelu_slope_scale(x);
    } else {
      const double g = 1 / (1 + std::exp(-x));
      value = x * g, scale = std::abs(value) * (1 + std::abs(x));
      slope = g * (1 + x * (1 - g)), slope_scale = 1 + std::abs(x);
    }
  }
};

/// Calls f(gate at x[i, j], number of x[i, j], number of x[i, n + j], number of y[i, j]).
template <class F>
void each_gated(const Expected& e, const Setting& s, Gate gate, const F& f) {
  for (int64_t i = 0; i < s.size(); ++i) {
    const int64_t first = i + i / s.cols * s.cols;
    f(Gated(gate, at(e["x"], first)), first, first + s.cols, i);
  }
}

Case gated_unit(const Setting& s, Gate gate) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, 2 * s.cols}}, {"y", s.type, s.shape(), Role::output}};
  c.bind = [gate](const Views& v) { return GatedUnit{v["x"], v["y"], gate}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.roundings = gated_roundings;
  c.reference = [=](Expected& e) {
    each_gated(e, s, gate, [&](const Gated& gated, int64_t, int64_t second, int64_t i) {
      const double up = at(e["x"], second);
      e.set("y", i, gated.value * up, gated.scale * std::abs(up));
    });
  };
  return c;
}

Case gated_unit_backward(const Setting& s, Gate gate) {
  const Shape both = {s.rows, 2 * s.cols};
  Case c;
  c.operands = {{"x", s.type, both}, {"dy", s.type, s.shape()}, {"dx", s.type, both, Role::output}};
  c.bind = [gate](const Views& v) { return GatedUnitBackward{v["x"], v["dy"], v["dx"], gate}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"dx", "x"}};
  c.roundings = gated_roundings;
  c.reference = [=](Expected& e) {
    each_gated(e, s, gate, [&](const Gated& gated, int64_t first, int64_t second, int64_t i) {
      const double up = at(e["x"], second), dy = at(e["dy"], i);
      e.set("dx", first, dy * up * gated.slope, std::abs(dy * up) * gated.slope_scale);
      e.set("dx", second, dy * gated.value, std::abs(dy) * gated.scale);
    });
  };
  return c;
}

/// narrow: of type T, and otherwise of A; x and y are operands by these names.
Case soft_cap(const Setting& s, bool narrow, float cap, const std::string& x,
              const std::string& y) {
  const DType type = s.narrow_or_wide(narrow);
  Case c;
  c.operands = {{x, type, s.shape()}, {y, type, s.shape(), Role::output}};
  c.bind = [=](const Views& v) { return SoftCap{v[x], v[y], cap}; };
  c.prepare = [=](Values& v) { widen(v[x]); };
  c.aliases = {{y, x}};
  c.roundings = gated_roundings;
  c.each(y, [=, wide = static_cast<double>(cap)](const Expected& e, int64_t i) {
    return wide * std::tanh(at(e[x], i) / wide);
  });
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

template <>
std::vector<Row> rows_of<GatedUnit>() {
  return {{"gated-unit", with(gated_unit, Gate::silu), {}, {0, 144}},
          {"gated-unit/gelu", with(gated_unit, Gate::gelu), {}, {0, 144}}};
}

template <>
std::vector<Row> rows_of<GatedUnitBackward>() {
  return {{"gated-unit-backward", with(gated_unit_backward, Gate::silu), {"gated-unit"}, {0, 240}},
          {"gated-unit-backward/gelu",
           with(gated_unit_backward, Gate::gelu),
           {"gated-unit/gelu"},
           {0, 240}}};
}

template <>
std::vector<Row> rows_of<SoftCap>() {
  return {
      {"soft-cap", with(soft_cap, true, 2.0F, "x", "y"), {}, {0, 96}},
      {"soft-cap/logits", with(soft_cap, false, logit_cap, "uncapped", "logits"), {}, {0, 192}}};
}

}  // namespace frugal::kernels::table
