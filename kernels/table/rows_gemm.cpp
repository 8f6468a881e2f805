#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

Gemm product_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) {
        if constexpr (requires { op.gemm; })
          return op.gemm;
        else
          return std::get<Gemm>(Operation(op));
      },
      operation);
}

/// Sets c = op(a) · op(b) (+ bias) (+ c). A product that is added has `added_rounding` of its own.
void multiply(Expected& e, const Gemm& op, double added_rounding) {
  for (int64_t s = 0; s < op.batch(); ++s)
    for (int64_t i = 0; i < op.m(); ++i)
      for (int64_t j = 0; j < op.n(); ++j) {
        const double& c = element(op.c, s, i, j);
        const double before = (op.accumulate ? c : 0) + (op.bias.empty() ? 0 : element(op.bias, j));
        double magnitude = std::abs(before), product = 0;
        for (int64_t l = 0; l < op.k(); ++l) {
          const double a = op.transpose_a ? element(op.a, s, l, i) : element(op.a, s, i, l);
          const double b = op.transpose_b ? element(op.b, s, j, l) : element(op.b, s, l, j);
          product += a * b;
          magnitude += std::abs(a * b);
        }
        e.set(c, before + product, magnitude + added_rounding * std::abs(product));
      }
}

/// A sum of n products in any order: n roundings of Σ|a·b| each at most.
Case product_case(const Setting& setting, std::vector<Operand> operands,
                  std::function<Operation(const Views&)> bind) {
  Case c;
  c.operands = std::move(operands);
  c.bind = std::move(bind);
  const Gemm gemm = product_of(unbacked(c));
  c.roundings = static_cast<double>(gemm.k() + 2);
  const bool rounded =
      setting.rounds_before_adding && gemm.accumulate && gemm.c.type == DType::bf16;
  const double before_adding =
      rounded ? unit_roundoff(DType::bf16) / unit_roundoff(DType::f32) / c.roundings : 0;
  c.reference = [=, operands = c.operands, bind = c.bind](Expected& e) {
    multiply(e, product_of(bind(e.views(operands))), before_adding);
  };
  return c;
}

/// Aligned to 8 where cols is to 16, as libraries have other kernels for such depths; else odd
/// where cols is a multiple of 8.
int64_t depth(const Setting& s) { return s.cols / 2 + (s.cols % 16 == 0 ? 8 : 3); }

Case forward(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(s,
                      {{"a", s.type, {m, k}},
                       {"b", s.type, {k, n}},
                       {"bias", s.type, {n}},
                       {"c", s.type, {m, n}, Role::output}},
                      [](const Views& v) {
                        return Gemm{v["a"], v["b"], v["c"], v["bias"]};
                      });
}

Case input_gradient(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(
      s, {{"dc", s.type, {m, n}}, {"b", s.type, {k, n}}, {"da", s.type, {m, k}, Role::output}},
      [](const Views& v) {
        return Gemm{.a = v["dc"], .b = v["b"], .c = v["da"], .transpose_b = true};
      });
}

/// narrow: db is of type T, which is rounded once, and not of A.
Case weight_gradient(const Setting& s, bool narrow) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(
      s,
      {{"a", s.type, {m, k}},
       {"dc", s.type, {m, n}},
       {"db", s.narrow_or_wide(narrow), {k, n}, Role::updated}},
      [](const Views& v) {
        return Gemm{
            .a = v["a"], .b = v["dc"], .c = v["db"], .transpose_a = true, .accumulate = true};
      });
}

/// Both transposed, all three parts of wider matrices: the elements beside c stay as they were.
Case gemm_parts(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(s,
                      {{"a", s.type, {k, m + 3}},
                       {"b", s.type, {n, k + 1}},
                       {"c", s.type, {m, n + 2}, Role::updated}},
                      [m, n, k](const Views& v) {
                        return Gemm{.a = v["a"].sliced(1, 2, m),
                                    .b = v["b"].sliced(1, 0, k),
                                    .c = v["c"].sliced(1, 1, n),
                                    .transpose_a = true,
                                    .transpose_b = true,
                                    .accumulate = true};
                      });
}

/// [s, heads, d] in memory, seen as one matrix per head.
View heads_outermost(const View& v) {
  const auto [s, heads, d] = std::array{v.shape[0], v.shape[1], v.shape[2]};
  return v.strided(0, {heads, s, d}, {d, heads * d, 1});
}

constexpr int64_t heads = 3;

Case attention_scores(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, d = depth(s);
  return product_case(s,
                      {{"q", s.type, {m, heads, d}},
                       {"k", s.type, {n, heads, d}},
                       {"scores", s.type, {heads, m, n}, Role::output}},
                      [](const Views& v) {
                        return Gemm{.a = heads_outermost(v["q"]),
                                    .b = heads_outermost(v["k"]),
                                    .c = v["scores"],
                                    .transpose_b = true};
                      });
}

Case attention_context(const Setting& s, bool accumulate) {
  const int64_t m = s.rows, n = s.cols, d = depth(s);
  return product_case(
      s,
      {{"p", s.type, {heads, m, n}},
       {"v", s.type, {n, heads, d}},
       {"context", s.type, {m, heads, d}, accumulate ? Role::updated : Role::output}},
      [accumulate](const Views& v) {
        return Gemm{.a = v["p"],
                    .b = heads_outermost(v["v"]),
                    .c = heads_outermost(v["context"]),
                    .accumulate = accumulate};
      });
}

Case attention_key_gradient(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, d = depth(s);
  return product_case(s,
                      {{"scores", s.type, {heads, m, n}},
                       {"q", s.type, {m, heads, d}},
                       {"dk", s.type, {n, heads, d}, Role::output}},
                      [](const Views& v) {
                        return Gemm{.a = v["scores"],
                                    .b = heads_outermost(v["q"]),
                                    .c = heads_outermost(v["dk"]),
                                    .transpose_a = true};
                      });
}

/// Roundings that u, stored in its type before GELU is taken of it, adds to those of the product.
double stored_roundings(DType type) {
  return 2 * unit_roundoff(type) / unit_roundoff(accumulation_type(type)) + 16;
}

/// GELU's input is c, its output y.
Case gemm_gelu(const Setting& s) {
  Case c = forward(s);
  const auto product = c.reference;
  const auto bind = c.bind;
  c.operands.push_back({"y", s.type, s.shape(), Role::output});
  c.bind = [bind](const Views& v) { return GemmGelu{std::get<Gemm>(bind(v)), v["y"]}; };
  const double of_product = c.roundings;
  c.roundings += stored_roundings(s.type);
  c.reference = [=, all = c.roundings](Expected& e) {
    product(e);
    for (int64_t i = 0; i < s.size(); ++i) {
      const double u = at(e["c"], i), scale = at(e.scale("c"), i) * of_product / all;
      e.set("c", i, u, scale);
      e.set("y", i, gelu_of(u), std::abs(u) + 2 * scale);
    }
  };
  return c;
}

/// The left operand of a product, as GELU of u.
Case gelu_before(const Setting& s) {
  const Shape shape = {s.rows, depth(s)};
  Case c;
  c.operands = {{"u", s.type, shape}, {"a", s.type, shape, Role::output}};
  c.bind = [](const Views& v) { return Gelu{v["u"], v["a"]}; };
  c.roundings = 16;
  c.each("a", [](const Expected& e, int64_t i) {
    const double u = at(e["u"], i);
    return Rounded{gelu_of(u), std::abs(u)};
  });
  return c;
}

Case gemm_gelu_backward(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  Case c =
      product_case(s,
                   {{"dc", s.type, {m, n}},
                    {"b", s.type, {k, n}},
                    {"u", s.type, {m, k}},
                    {"du", s.type, {m, k}, Role::output}},
                   [](const Views& v) {
                     return GemmGeluBackward{
                         {.a = v["dc"], .b = v["b"], .c = v["du"], .transpose_b = true}, v["u"]};
                   });
  c.roundings += stored_roundings(s.type);
  c.reference = [product = c.reference](Expected& e) {
    product(e);
    e.set_all("du", [&](int64_t i) {
      const double u = at(e["u"], i), d = at(e["du"], i);
      return Rounded{d * gelu_slope(u), at(e.scale("du"), i) * gelu_slope_scale(u)};
    });
  };
  return c;
}

Case column_sum(const Setting& s, bool narrow) {
  Case c;
  c.operands = {{"dc", s.type, s.shape()},
                {"dbias", s.narrow_or_wide(narrow), {s.cols}, Role::updated}};
  c.bind = [](const Views& v) { return ColumnSum{v["dc"], v["dbias"]}; };
  c.roundings = static_cast<double>(s.rows + 1);  // a sum of rows + 1 terms in any order
  c.reference = [s](Expected& e) {
    for (int64_t i = 0; i < s.size(); ++i) e.add("dbias", i % s.cols, at(e["dc"], i));
  };
  return c;
}

/// Gradients of a layer's weights, [n, k], and of its bias, in one. k is whole packs where columns
/// are, as the library asks.
Case gemm_bias_gradient(const Setting& s, bool narrow) {
  const int64_t m = s.rows, n = s.cols, k = n % 8 == 0 ? (n / 2 + 7) / 8 * 8 : depth(s);
  const DType type = s.narrow_or_wide(narrow);
  Case c = product_case(
      s,
      {{"dc", s.type, {m, n}},
       {"a", s.type, {m, k}},
       {"dw", type, {n, k}, Role::updated},
       {"dbias", type, {n}, Role::updated}},
      [](const Views& v) {
        return GemmBiasGradient{
            {.a = v["dc"], .b = v["a"], .c = v["dw"], .transpose_a = true, .accumulate = true},
            v["dbias"]};
      });
  c.reference = [product = c.reference, sum = column_sum(s, narrow).reference](Expected& e) {
    product(e);
    sum(e);
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Gemm>() {
  return {{"gemm", forward, {}, {240, 156}},
          {"gemm/input-gradient", input_gradient, {"gemm"}, {240, 148}},
          {"gemm/weight-gradient", with(weight_gradient, false), {"gemm"}, {240, 268}},
          {"gemm/weight-gradient-narrow", with(weight_gradient, true), {}, {240, 188}},
          {"gemm/parts", gemm_parts, {}, {240, 196}},
          {"gemm/attention-scores", attention_scores, {}, {720, 444}},
          {"gemm/attention-context", with(attention_context, false), {}, {720, 444}},
          {"gemm/attention-context-added", with(attention_context, true), {}, {720, 624}},
          {"gemm/attention-key-gradient", attention_key_gradient, {}, {720, 444}}};
}

template <>
std::vector<Row> rows_of<GemmGelu>() {
  return {{"gemm-gelu", gemm_gelu, {}, {240, 204}}};
}

template <>
std::vector<Row> rows_of<GemmGeluBackward>() {
  return {{"gelu/before-product", gelu_before, {}, {0, 120}},
          {"gemm-gelu-backward", gemm_gelu_backward, {"gelu/before-product", "gemm"}, {240, 208}}};
}

template <>
std::vector<Row> rows_of<GemmBiasGradient>() {
  return {{"gemm-bias-gradient", with(gemm_bias_gradient, false), {"gemm"}, {240, 300}},
          {"gemm-bias-gradient/narrow", with(gemm_bias_gradient, true), {}, {240, 204}}};
}

template <>
std::vector<Row> rows_of<ColumnSum>() {
  return {{"column-sum", with(column_sum, false), {"gemm"}, {0, 80}},
          {"column-sum/narrow", with(column_sum, true), {}, {0, 64}}};
}

}  // namespace frugal::kernels::table
