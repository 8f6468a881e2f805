#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Where a matrix's elements lie in its operand, in elements.
struct Matrix {
  std::string name;
  int64_t row, col;
  int64_t batch = 0, first = 0;

  int64_t at(int64_t b, int64_t i, int64_t j) const {
    return first + b * batch + i * row + j * col;
  }
};

struct Product {
  int64_t batch, m, n, k;
  Matrix a, b, c;
  bool accumulate = false;
  std::string bias;
  double added_rounding = 0;  ///< of a product before it is added, in the case's roundings

  void operator()(Expected& e) const {
    for (int64_t s = 0; s < batch; ++s) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) element(e, s, i, j);
      }
    }
  }

 private:
  void element(Expected& e, int64_t s, int64_t i, int64_t j) const {
    const auto target = static_cast<size_t>(c.at(s, i, j));
    double sum = accumulate ? e[c.name][target] : 0;
    if (!bias.empty()) sum += at(e[bias], j);
    double magnitude = std::abs(sum), product = 0;
    const auto& left = e[a.name];
    const auto& right = e[b.name];
    for (int64_t l = 0; l < k; ++l) {
      const double term =
          left[static_cast<size_t>(a.at(s, i, l))] * right[static_cast<size_t>(b.at(s, l, j))];
      product += term;
      magnitude += std::abs(term);
    }
    e.set(c.name, static_cast<int64_t>(target), sum + product,
          magnitude + added_rounding * std::abs(product));
  }
};

/// A sum of n products in any order: n roundings of Σ|a·b| each at most.
Case product_case(const Setting& setting, std::vector<Operand> operands,
                  std::function<Operation(const Views&)> bind, Product product) {
  Case c;
  c.operands = std::move(operands);
  c.bind = std::move(bind);
  c.roundings = static_cast<double>(product.k + 2);
  if (setting.rounds_before_adding && product.accumulate) {
    const auto of_result = [&](const Operand& o) { return o.name == product.c.name; };
    const DType type = std::find_if(c.operands.begin(), c.operands.end(), of_result)->type;
    if (type == DType::bf16)
      product.added_rounding = unit_roundoff(type) / unit_roundoff(DType::f32) / c.roundings;
  }
  c.reference = std::move(product);
  return c;
}

/// Aligned to 8 where cols is to 16, as libraries have other kernels for such depths; else odd
/// where cols is a multiple of 8.
int64_t depth(const Setting& s) { return s.cols / 2 + (s.cols % 16 == 0 ? 8 : 3); }

Case forward(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(
      s,
      {{"a", s.type, {m, k}},
       {"b", s.type, {k, n}},
       {"bias", s.type, {n}},
       {"c", s.type, {m, n}, Role::output}},
      [](const Views& v) { return Gemm{.a = v["a"], .b = v["b"], .c = v["c"], .bias = v["bias"]}; },
      {1, m, n, k, {"a", k, 1}, {"b", n, 1}, {"c", n, 1}, false, "bias"});
}

Case input_gradient(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(
      s, {{"dc", s.type, {m, n}}, {"b", s.type, {k, n}}, {"da", s.type, {m, k}, Role::output}},
      [](const Views& v) {
        return Gemm{.a = v["dc"], .b = v["b"], .c = v["da"], .bias = {}, .transpose_b = true};
      },
      {1, m, k, n, {"dc", n, 1}, {"b", 1, n}, {"da", k, 1}, false, ""});
}

/// Of type A or of T, which is rounded once.
Case weight_gradient(const Setting& s, bool narrow) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(s,
                      {{"a", s.type, {m, k}},
                       {"dc", s.type, {m, n}},
                       {"db", narrow ? s.type : accumulation_type(s.type), {k, n}, Role::updated}},
                      [](const Views& v) {
                        return Gemm{.a = v["a"],
                                    .b = v["dc"],
                                    .c = v["db"],
                                    .bias = {},
                                    .transpose_a = true,
                                    .accumulate = true};
                      },
                      {1, k, n, m, {"a", 1, k}, {"dc", n, 1}, {"db", n, 1}, true, ""});
}

/// Both transposed, all three parts of wider matrices: what lies beside c stays as it was.
Case gemm_parts(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  return product_case(
      s,
      {{"a", s.type, {k, m + 3}},
       {"b", s.type, {n, k + 1}},
       {"c", s.type, {m, n + 2}, Role::updated}},
      [m, n, k](const Views& v) {
        return Gemm{.a = v["a"].sliced(1, 2, m),
                    .b = v["b"].sliced(1, 0, k),
                    .c = v["c"].sliced(1, 1, n),
                    .bias = {},
                    .transpose_a = true,
                    .transpose_b = true,
                    .accumulate = true};
      },
      {1, m, n, k, {"a", 1, m + 3, 0, 2}, {"b", 1, k + 1}, {"c", n + 2, 1, 0, 1}, true, ""});
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
                                    .bias = {},
                                    .transpose_b = true};
                      },
                      {heads,
                       m,
                       n,
                       d,
                       {"q", heads * d, 1, d},
                       {"k", 1, heads * d, d},
                       {"scores", n, 1, m * n},
                       false,
                       ""});
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
                    .bias = {},
                    .accumulate = accumulate};
      },
      {heads,
       m,
       d,
       n,
       {"p", n, 1, m * n},
       {"v", heads * d, 1, d},
       {"context", heads * d, 1, d},
       accumulate,
       ""});
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
                                    .bias = {},
                                    .transpose_a = true};
                      },
                      {heads,
                       n,
                       d,
                       m,
                       {"scores", 1, n, m * n},
                       {"q", heads * d, 1, d},
                       {"dk", heads * d, 1, d},
                       false,
                       ""});
}

/// Roundings that u, stored in its type before GELU is taken of it, adds to those of the product.
double stored_roundings(DType type) {
  return 2 * unit_roundoff(type) / unit_roundoff(accumulation_type(type)) + 16;
}

/// c is what comes before GELU, y what comes after it.
Case gemm_gelu(const Setting& s) {
  Case c = forward(s);
  const auto product = c.reference;
  const auto bind = c.bind;
  c.operands.push_back({"y", s.type, {s.rows, s.cols}, Role::output});
  c.bind = [bind](const Views& v) { return GemmGelu{std::get<Gemm>(bind(v)), v["y"]}; };
  const double of_product = c.roundings;
  c.roundings += stored_roundings(s.type);
  c.reference = [=, all = c.roundings](Expected& e) {
    product(e);
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
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
  c.bind = [](const Views& v) { return Gelu{.x = v["u"], .y = v["a"]}; };
  c.roundings = 16;
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < shape.size(); ++i) {
      const double u = at(e["u"], i);
      e.set("a", i, gelu_of(u), std::abs(u));
    }
  };
  return c;
}

Case gemm_gelu_backward(const Setting& s) {
  const int64_t m = s.rows, n = s.cols, k = depth(s);
  Case c = product_case(
      s,
      {{"dc", s.type, {m, n}},
       {"b", s.type, {k, n}},
       {"u", s.type, {m, k}},
       {"du", s.type, {m, k}, Role::output}},
      [](const Views& v) {
        return GemmGeluBackward{
            {.a = v["dc"], .b = v["b"], .c = v["du"], .bias = {}, .transpose_b = true}, v["u"]};
      },
      {1, m, k, n, {"dc", n, 1}, {"b", 1, n}, {"du", k, 1}, false, ""});
  c.roundings += stored_roundings(s.type);
  c.reference = [product = c.reference, size = m * k](Expected& e) {
    product(e);
    for (int64_t i = 0; i < size; ++i) {
      const double u = at(e["u"], i), d = at(e["du"], i);
      e.set("du", i, d * gelu_slope(u), at(e.scale("du"), i) * gelu_slope_scale(u));
    }
  };
  return c;
}

Case column_sum(const Setting& s, bool narrow) {
  Case c;
  c.operands = {{"dc", s.type, {s.rows, s.cols}},
                {"dbias", narrow ? s.type : accumulation_type(s.type), {s.cols}, Role::updated}};
  c.bind = [](const Views& v) { return ColumnSum{.x = v["dc"], .sum = v["dbias"]}; };
  c.roundings = static_cast<double>(s.rows + 1);  // a sum of rows + 1 terms in any order
  c.reference = [s](Expected& e) {
    for (int64_t j = 0; j < s.cols; ++j) {
      double sum = at(e["dbias"], j), magnitude = std::abs(sum);
      for (int64_t i = 0; i < s.rows; ++i) {
        const double x = at(e["dc"], i * s.cols + j);
        sum += x;
        magnitude += std::abs(x);
      }
      e.set("dbias", j, sum, magnitude);
    }
  };
  return c;
}

/// Gradients of a layer's weights, [n, k], and of its bias, in one. Where columns are whole packs,
/// k is, as the library asks.
Case gemm_bias_gradient(const Setting& s, bool narrow) {
  const int64_t m = s.rows, n = s.cols, k = n % 8 == 0 ? (n / 2 + 7) / 8 * 8 : depth(s);
  const DType type = narrow ? s.type : accumulation_type(s.type);
  Case c = product_case(s,
                        {{"dc", s.type, {m, n}},
                         {"a", s.type, {m, k}},
                         {"dw", type, {n, k}, Role::updated},
                         {"dbias", type, {n}, Role::updated}},
                        [](const Views& v) {
                          return GemmBiasGradient{{.a = v["dc"],
                                                   .b = v["a"],
                                                   .c = v["dw"],
                                                   .bias = {},
                                                   .transpose_a = true,
                                                   .accumulate = true},
                                                  v["dbias"]};
                        },
                        {1, n, k, m, {"dc", 1, n}, {"a", k, 1}, {"dw", k, 1}, true, ""});
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
