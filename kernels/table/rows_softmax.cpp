#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Which of the operation's forms.
struct SoftmaxForm {
  bool causal = false, dropout = false, keep_mask = false;
};

struct SoftmaxSizes {
  int64_t batch, rows, cols;

  SoftmaxSizes(const Setting& s, const SoftmaxForm& form)
      : batch(form.causal ? (s.rows + s.cols - 1) / s.cols : 2),
        rows(form.causal ? s.cols : s.rows),
        cols(s.cols) {}
  Shape shape() const { return {batch, rows, cols}; }
  int64_t size() const { return batch * rows * cols; }
  /// Columns that row r of all batch · rows sees.
  int64_t visible(int64_t r, const SoftmaxForm& form) const {
    return form.causal ? r % rows + 1 : cols;
  }
};

constexpr SoftmaxForm whole_softmax{}, stored_softmax{true, true, true},
    regenerated_softmax{true, true, false};
constexpr float scale = 0.75F;

Dropout dropout_of(const Setting& s, const SoftmaxForm& form) {
  if (!form.dropout) return {};
  return {0.3F, {s.seed, 4, 9}, scattered(s.seed, 3 * s.cols)};
}

/// Softmax of row r; calls put(element, p, |scale · (x − max)| and its mean under p).
template <class Put>
void softmax_row(const std::vector<double>& x, int64_t first, int64_t n, double factor, Put put) {
  double largest = -INFINITY, sum = 0, spread = 0;
  const auto argument = [&](int64_t j) { return factor * at(x, first + j) - largest; };
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, factor * at(x, first + j));
  for (int64_t j = 0; j < n; ++j) sum += std::exp(argument(j));
  for (int64_t j = 0; j < n; ++j) spread -= std::exp(argument(j)) * argument(j) / sum;
  std::vector<double> p(static_cast<size_t>(n));
  std::vector<double> condition(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    at(p, j) = std::exp(argument(j)) / sum;
    at(condition, j) = 1 + std::abs(argument(j)) + spread;
  }
  for (int64_t j = 0; j < n; ++j) put(first + j, at(p, j), at(condition, j));
}

Case softmax(const Setting& s, const SoftmaxForm& form) {
  const SoftmaxSizes sizes(s, form);
  const Dropout dropout = dropout_of(s, form);
  Case c;
  c.operands = {{"x", s.type, sizes.shape()}, {"p", s.type, sizes.shape(), Role::output}};
  if (form.keep_mask) c.operands.push_back({"mask", DType::u8, sizes.shape(), Role::output});
  if (form.dropout) c.operands.push_back({"dropped", s.type, sizes.shape(), Role::output});
  c.bind = [form, dropout](const Views& v) {
    return Softmax{.x = v["x"],
                   .p = v["p"],
                   .mask = v["mask"],
                   .dropped = v["dropped"],
                   .scale = scale,
                   .causal = form.causal,
                   .dropout = dropout};
  };
  c.aliases = {{"p", "x"}};
  c.roundings = static_cast<double>(sizes.cols) + 16;  // a sum over a row of exponentials
  c.storage_roundings = 2;                             // `dropped` may come from a stored p
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < sizes.size(); ++i) {
      e.set("p", i, 0);
      if (form.dropout) e.set("dropped", i, 0);
      if (form.keep_mask) e.set("mask", i, 0);
    }
    for (int64_t r = 0; r < sizes.batch * sizes.rows; ++r) {
      softmax_row(e["x"], r * sizes.cols, sizes.visible(r, form), static_cast<double>(scale),
                  [&](int64_t i, double p, double condition) {
                    e.set("p", i, p, p * condition);
                    const double factor = dropout_factor(dropout, i);
                    if (form.dropout) e.set("dropped", i, p * factor, p * factor * condition);
                    if (form.keep_mask) e.set("mask", i, factor > 0 ? 1 : 0);
                  });
    }
  };
  return c;
}

Case softmax_backward(const Setting& s, const SoftmaxForm& form) {
  const SoftmaxSizes sizes(s, form);
  const Dropout dropout = dropout_of(s, form);
  const std::string dy = form.dropout ? "ddropped" : "dp";
  Case c;
  c.operands = {{dy, s.type, sizes.shape()},
                {"p", s.type, sizes.shape(), Role::input, Draw::fraction},
                {"dx", s.type, sizes.shape(), Role::output}};
  if (form.keep_mask) {
    c.operands.push_back({"mask", DType::u8, sizes.shape(), Role::input, Draw::bit});
  }
  c.bind = [=](const Views& v) {
    return SoftmaxBackward{.dy = v[dy],
                           .p = v["p"],
                           .mask = v["mask"],
                           .dx = v["dx"],
                           .scale = scale,
                           .causal = form.causal,
                           .dropout = dropout};
  };
  c.prepare = [=](Values& v) {
    const std::vector<double> logits = v["p"];
    std::fill(v["p"].begin(), v["p"].end(), 0);
    for (int64_t r = 0; r < sizes.batch * sizes.rows; ++r) {
      softmax_row(logits, r * sizes.cols, sizes.visible(r, form), 1,
                  [&](int64_t i, double p, double) { at(v["p"], i) = p; });
    }
    if (!form.keep_mask) return;
    for (int64_t i = 0; i < sizes.size(); ++i) {
      at(v["mask"], i) = dropout_factor(dropout, i) > 0 ? 1 : 0;
    }
  };
  c.aliases = {{"dx", dy}};
  c.roundings = static_cast<double>(sizes.cols) + 16;  // a dot product over a row
  c.reference = [=](Expected& e) {
    const auto dp = [&](int64_t i) { return at(e[dy], i) * dropout_factor(dropout, i); };
    for (int64_t r = 0; r < sizes.batch * sizes.rows; ++r) {
      double dot = 0, magnitude = 0;
      for (int64_t i = r * sizes.cols; i < (r + 1) * sizes.cols; ++i) {
        dot += at(e["p"], i) * dp(i);
        magnitude += std::abs(at(e["p"], i) * dp(i));
      }
      for (int64_t i = r * sizes.cols; i < (r + 1) * sizes.cols; ++i) {
        const double factor = static_cast<double>(scale) * at(e["p"], i);
        e.set("dx", i, factor * (dp(i) - dot), factor * (std::abs(dp(i)) + magnitude));
      }
    }
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Softmax>() {
  return {{"softmax", with(softmax, whole_softmax), {}, {0, 192}},
          {"softmax/causal-dropout", with(softmax, stored_softmax), {}, {0, 224}},
          {"softmax/regenerated", with(softmax, regenerated_softmax), {}, {0, 192}}};
}

template <>
std::vector<Row> rows_of<SoftmaxBackward>() {
  return {{"softmax-backward", with(softmax_backward, whole_softmax), {"softmax"}, {0, 288}},
          {"softmax-backward/causal-dropout",
           with(softmax_backward, stored_softmax),
           {"softmax/causal-dropout"},
           {0, 224}},
          {"softmax-backward/regenerated",
           with(softmax_backward, regenerated_softmax),
           {"softmax/regenerated"},
           {0, 192}}};
}

}  // namespace frugal::kernels::table
