#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

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

Case gated_unit(const Setting& s, Gate gate) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, 2 * s.cols}}, {"y", s.type, {s.rows, s.cols}, Role::output}};
  c.bind = [gate](const Views& v) { return GatedUnit{.x = v["x"], .y = v["y"], .gate = gate}; };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.roundings = gated_roundings;
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.cols; ++j) {
        const int64_t first = 2 * i * s.cols + j;
        const Gated gated(gate, at(e["x"], first));
        const double up = at(e["x"], first + s.cols);
        e.set("y", i * s.cols + j, gated.value * up, gated.scale * std::abs(up));
      }
  };
  return c;
}

Case gated_unit_backward(const Setting& s, Gate gate) {
  Case c;
  c.operands = {{"x", s.type, {s.rows, 2 * s.cols}},
                {"dy", s.type, {s.rows, s.cols}},
                {"dx", s.type, {s.rows, 2 * s.cols}, Role::output}};
  c.bind = [gate](const Views& v) {
    return GatedUnitBackward{.x = v["x"], .dy = v["dy"], .dx = v["dx"], .gate = gate};
  };
  c.prepare = [](Values& v) { widen(v["x"]); };
  c.aliases = {{"dx", "x"}};
  c.roundings = gated_roundings;
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.cols; ++j) {
        const int64_t first = 2 * i * s.cols + j, second = first + s.cols;
        const Gated gated(gate, at(e["x"], first));
        const double up = at(e["x"], second), dy = at(e["dy"], i * s.cols + j);
        e.set("dx", first, dy * up * gated.slope, std::abs(dy * up) * gated.slope_scale);
        e.set("dx", second, dy * gated.value, std::abs(dy) * gated.scale);
      }
  };
  return c;
}

/// narrow: of type T, and otherwise of A; x and y are operands by these names.
Case soft_cap(const Setting& s, bool narrow, float cap, const std::string& x,
              const std::string& y) {
  const DType type = narrow ? s.type : accumulation_type(s.type);
  Case c;
  c.operands = {{x, type, {s.rows, s.cols}}, {y, type, {s.rows, s.cols}, Role::output}};
  c.bind = [=](const Views& v) { return SoftCap{.x = v[x], .y = v[y], .cap = cap}; };
  c.prepare = [=](Values& v) { widen(v[x]); };
  c.aliases = {{y, x}};
  c.roundings = gated_roundings;
  c.reference = [=](Expected& e) {
    const auto wide = static_cast<double>(cap);
    for (int64_t i = 0; i < s.rows * s.cols; ++i) e.set(y, i, wide * std::tanh(at(e[x], i) / wide));
  };
  return c;
}

}  // namespace

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
