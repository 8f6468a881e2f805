#include <cmath>
#include <numbers>

#include "tests/support/operation_table.h"
#include "tests/support/oracle.h"

namespace frugal::table {
namespace {

constexpr float epsilon = 1e-5F;
/// Evaluating exp, tanh, sqrt and a handful of products around them.
constexpr double function_roundings = 16;

/// Mean and reciprocal deviation of row i of x.
struct RowStatistics {
  double mean = 0, rstd = 0, absolute = 0;

  RowStatistics(const std::vector<double>& x, int64_t i, int64_t cols) {
    const auto n = static_cast<double>(cols);
    double variance = 0;
    for (int64_t j = 0; j < cols; ++j) mean += at(x, i * cols + j) / n;
    for (int64_t j = 0; j < cols; ++j) variance += std::pow(at(x, i * cols + j) - mean, 2) / n;
    for (int64_t j = 0; j < cols; ++j) absolute += std::abs(at(x, i * cols + j)) / n;
    rstd = 1 / std::sqrt(variance + static_cast<double>(epsilon));
  }
};

/// Residual streams are not centred; a variance by E[x²] − E[x]² would show here.
void move_off_centre(Values& v) {
  for (double& x : v["x"]) x += 3;
}

Case layer_norm(const Setting& s) {
  const DType a = accumulation_type(s.type);
  Case c;
  c.operands = {{"x", s.type, {s.rows, s.cols}},     {"gamma", s.type, {s.cols}},
                {"beta", s.type, {s.cols}},          {"y", s.type, {s.rows, s.cols}, Role::output},
                {"mean", a, {s.rows}, Role::output}, {"rstd", a, {s.rows}, Role::output}};
  c.bind = [](const Views& v) {
    return LayerNorm{.x = v["x"],
                     .gamma = v["gamma"],
                     .beta = v["beta"],
                     .y = v["y"],
                     .mean = v["mean"],
                     .rstd = v["rstd"],
                     .epsilon = epsilon};
  };
  c.prepare = move_off_centre;
  c.roundings = static_cast<double>(s.cols) + function_roundings;  // sums over a row
  c.reference = [s](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const RowStatistics row(e["x"], i, s.cols);
      // The mean is off by roundings of E|x|; that moves the deviation relative to itself.
      const double moved = row.absolute * row.rstd;
      e.set("mean", i, row.mean, row.absolute);
      e.set("rstd", i, row.rstd, row.rstd * (1 + moved));
      for (int64_t j = 0; j < s.cols; ++j) {
        const double hat = (at(e["x"], i * s.cols + j) - row.mean) * row.rstd;
        const double gamma = at(e["gamma"], j), beta = at(e["beta"], j);
        e.set("y", i * s.cols + j, hat * gamma + beta,
              std::abs(gamma) * (moved + std::abs(hat) * (1 + moved)) + std::abs(beta));
      }
    }
  };
  return c;
}

void prepare_layer_norm_backward(Values& v, int64_t cols) {
  move_off_centre(v);
  for (size_t i = 0; i < v["mean"].size(); ++i) {
    const RowStatistics row(v["x"], static_cast<int64_t>(i), cols);
    v["mean"][i] = row.mean;
    v["rstd"][i] = row.rstd;
  }
}

/// Ba, Kiros, Hinton 2016 (arXiv:1607.06450) differentiated by x, γ and β.
void layer_norm_gradient(Expected& e, const Setting& s) {
  const auto n = static_cast<double>(s.cols);
  std::vector<double> dgamma = e["dgamma"], dbeta = e["dbeta"];
  std::vector<double> dgamma_scale(dgamma.size()), dbeta_scale(dbeta.size());
  for (int64_t i = 0; i < s.rows; ++i) {
    const double mean = at(e["mean"], i), rstd = at(e["rstd"], i);
    const auto hat = [&](int64_t j) { return (at(e["x"], i * s.cols + j) - mean) * rstd; };
    const auto dy = [&](int64_t j) { return at(e["dy"], i * s.cols + j); };
    double mean_g = 0, mean_gh = 0, abs_g = 0, abs_gh = 0;
    for (int64_t j = 0; j < s.cols; ++j) {
      const double g = dy(j) * at(e["gamma"], j);
      mean_g += g / n;
      mean_gh += g * hat(j) / n;
      abs_g += std::abs(g) / n;
      abs_gh += std::abs(g * hat(j)) / n;
    }
    for (int64_t j = 0; j < s.cols; ++j) {
      const double g = dy(j) * at(e["gamma"], j);
      const double add = e.has("add") ? at(e["add"], i * s.cols + j) : 0;
      e.set("dx", i * s.cols + j, rstd * (g - mean_g - hat(j) * mean_gh) + add,
            rstd * (std::abs(g) + abs_g + std::abs(hat(j)) * abs_gh) + std::abs(add));
      at(dgamma, j) += dy(j) * hat(j);
      at(dbeta, j) += dy(j);
      at(dgamma_scale, j) += std::abs(dy(j) * hat(j));
      at(dbeta_scale, j) += std::abs(dy(j));
    }
  }
  for (int64_t j = 0; j < s.cols; ++j) {
    e.set("dgamma", j, at(dgamma, j), at(dgamma_scale, j) + std::abs(at(e["dgamma"], j)));
    e.set("dbeta", j, at(dbeta, j), at(dbeta_scale, j) + std::abs(at(e["dbeta"], j)));
  }
}

Case layer_norm_backward(const Setting& s, bool residual) {
  const DType a = accumulation_type(s.type);
  Case c;
  c.operands = {{"dy", s.type, {s.rows, s.cols}},
                {"x", s.type, {s.rows, s.cols}},
                {"mean", a, {s.rows}},
                {"rstd", a, {s.rows}, Role::input, Draw::positive},
                {"gamma", s.type, {s.cols}},
                {"dx", s.type, {s.rows, s.cols}, Role::output},
                {"dgamma", a, {s.cols}, Role::updated},
                {"dbeta", a, {s.cols}, Role::updated}};
  if (residual) {
    c.operands.push_back({"add", s.type, {s.rows, s.cols}});
    c.aliases = {{"dx", "add"}};
  }
  c.bind = [](const Views& v) {
    return LayerNormBackward{.dy = v["dy"],
                             .x = v["x"],
                             .mean = v["mean"],
                             .rstd = v["rstd"],
                             .gamma = v["gamma"],
                             .add = v["add"],
                             .dx = v["dx"],
                             .dgamma = v["dgamma"],
                             .dbeta = v["dbeta"]};
  };
  c.prepare = [s](Values& v) { prepare_layer_norm_backward(v, s.cols); };
  c.roundings = static_cast<double>(std::max(s.rows, s.cols)) + function_roundings;
  c.reference = [s](Expected& e) { layer_norm_gradient(e, s); };
  return c;
}

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

std::vector<Row> layer_norm_and_gelu_rows() {
  const auto plain = [](const Setting& s) { return layer_norm_backward(s, false); };
  const auto residual = [](const Setting& s) { return layer_norm_backward(s, true); };
  return {{"layer-norm", layer_norm, {}, {0, 160}},
          {"layer-norm-backward", plain, {"layer-norm"}, {0, 264}},
          {"layer-norm-backward/residual", residual, {}, {0, 312}},
          {"gelu", gelu, {}, {0, 96}},
          {"gelu-backward", gelu_backward, {"gelu"}, {0, 144}}};
}

}  // namespace frugal::table
