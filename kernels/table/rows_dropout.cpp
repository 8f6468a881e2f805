#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Operands of the operation that a form has.
struct BiasDropoutForm {
  int64_t groups = 0;  ///< of the bias; 0: no bias
  bool residual = false, dropout = false, keep_mask = false;
  bool narrow = false;  ///< the gradient of the bias has its type

  /// Rows must be divisible by groups.
  int64_t rows(const Setting& s) const { return s.rows * std::max<int64_t>(groups, 1); }
  /// Position of an element's bias.
  int64_t bias_at(const Setting& s, int64_t i) const {
    return i / s.cols / s.rows * s.cols + i % s.cols;
  }
};

constexpr BiasDropoutForm all{1, true, true, true}, regenerated{2, true, true, false};
constexpr BiasDropoutForm bias_only{1}, dropout_only{.dropout = true};
constexpr BiasDropoutForm narrow{.groups = 1, .narrow = true};

Dropout dropout_of(const Setting& s, const BiasDropoutForm& form) {
  if (!form.dropout) return {};
  return {0.1F, {s.seed, 2, 3}, scattered(s.seed, 2 * s.cols)};
}

Case bias_dropout_add(const Setting& s, const BiasDropoutForm& form) {
  const Shape shape = {form.rows(s), s.cols};
  const Dropout dropout = dropout_of(s, form);
  Case c;
  c.operands = {{"x", s.type, shape}, {"y", s.type, shape, Role::output}};
  if (form.groups > 0) c.operands.push_back({"bias", s.type, {form.groups, s.cols}});
  if (form.residual) c.operands.push_back({"residual", s.type, shape});
  if (form.keep_mask) c.operands.push_back({"mask", DType::u8, shape, Role::output});
  c.bind = [dropout](const Views& v) {
    return BiasDropoutAdd{v["x"], v["bias"], v["residual"], v["y"], v["mask"], dropout};
  };
  c.aliases = {{"y", "x"}};
  c.roundings = 3;  // one per arithmetic operation
  c.reference = [=](Expected& e) {
    e.set_all("y", [&](int64_t i) {
      const double x = at(e["x"], i), factor = dropout_factor(dropout, i);
      const double bias = form.groups > 0 ? at(e["bias"], form.bias_at(s, i)) : 0;
      const double residual = form.residual ? at(e["residual"], i) : 0;
      return Rounded{(x + bias) * factor + residual,
                     (std::abs(x) + std::abs(bias)) * factor + std::abs(residual)};
    });
    if (form.keep_mask)
      e.set_all("mask", [&](int64_t i) { return dropout_factor(dropout, i) > 0 ? 1 : 0; });
  };
  return c;
}

Case bias_dropout_add_backward(const Setting& s, const BiasDropoutForm& form) {
  const Shape shape = {form.rows(s), s.cols};
  const Dropout dropout = dropout_of(s, form);
  Case c;
  c.operands = {{"dy", s.type, shape}, {"dx", s.type, shape, Role::output}};
  if (form.keep_mask) {
    c.operands.push_back({"mask", DType::u8, shape, Role::input, Draw::bit});
    c.prepare = [=](Values& v) { decide(v["mask"], dropout); };
  }
  if (form.groups > 0)
    c.operands.push_back(
        {"dbias", s.narrow_or_wide(form.narrow), {form.groups, s.cols}, Role::updated});
  c.bind = [dropout](const Views& v) {
    return BiasDropoutAddBackward{v["dy"], v["mask"], v["dx"], v["dbias"], dropout};
  };
  c.aliases = {{"dx", "dy"}};
  c.roundings = static_cast<double>(s.rows + 2);  // a sum over the rows of a group
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < shape.size(); ++i) {
      const double dx = at(e["dy"], i) * dropout_factor(dropout, i);
      e.set("dx", i, dx);
      if (form.groups > 0) e.add("dbias", form.bias_at(s, i), dx);
    }
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<BiasDropoutAdd>() {
  return {{"bias-dropout-add", with(bias_dropout_add, all), {}, {0, 176}},
          {"bias-dropout-add/regenerated", with(bias_dropout_add, regenerated), {}, {0, 304}},
          {"bias-dropout-add/bias-only", with(bias_dropout_add, bias_only), {}, {0, 104}},
          {"bias-dropout-add/dropout-only", with(bias_dropout_add, dropout_only), {}, {0, 96}}};
}

template <>
std::vector<Row> rows_of<BiasDropoutAddBackward>() {
  const auto row = [](const std::string& variant, const BiasDropoutForm& form, double bytes) {
    return Row{"bias-dropout-add-backward" + variant,
               with(bias_dropout_add_backward, form),
               {"bias-dropout-add" + variant},
               {0, bytes}};
  };
  return {
      row("", all, 152),
      row("/regenerated", regenerated, 256),
      row("/bias-only", bias_only, 128),
      {"bias-dropout-add-backward/narrow", with(bias_dropout_add_backward, narrow), {}, {0, 112}},
      row("/dropout-only", dropout_only, 96)};
}

}  // namespace frugal::kernels::table
