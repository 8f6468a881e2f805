#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

constexpr float epsilon = 1e-5F;
/// Evaluating sqrt and a handful of products around it.
constexpr double norm_roundings = 16;

/// LayerNorm, or without a mean and without beta RmsNorm, whose gain is gamma and an offset.
struct Kind {
  bool centred = true;
  float offset = 0;

  double gain(const Expected& e, int64_t j) const { return at(e["gamma"], j) + offset; }
};
constexpr Kind layer_norm{true}, rms_norm{false}, rms_norm_from_one{false, 1};

/// Mean (0 where none is subtracted) and reciprocal deviation of row i of x.
struct RowStatistics {
  double mean = 0, rstd = 0, absolute = 0;

  RowStatistics(const std::vector<double>& x, Kind kind, int64_t i, int64_t cols) {
    const auto n = static_cast<double>(cols);
    double variance = 0;
    for (int64_t j = 0; kind.centred && j < cols; ++j) mean += at(x, i * cols + j) / n;
    for (int64_t j = 0; j < cols; ++j) variance += std::pow(at(x, i * cols + j) - mean, 2) / n;
    for (int64_t j = 0; j < cols; ++j) absolute += std::abs(at(x, i * cols + j)) / n;
    rstd = 1 / std::sqrt(variance + static_cast<double>(epsilon));
  }
};

/// Widths at which a block of the backward passes takes 48 KiB of shared memory for rows, and some
/// for else; then a little more, and 144 KiB.
std::vector<int64_t> norm_edges() { return {256, 2064, 12288}; }

/// Residual streams are not centred; a variance by E[x²] − E[x]² would show here.
void move_off_centre(Values& v) {
  for (double& x : v["x"]) x += 3;
}

Case forward_norm(const Setting& s, Kind kind) {
  Case c;
  c.operands = {{"x", s.type, s.shape()},
                {"gamma", s.type, {s.cols}},
                {"y", s.type, s.shape(), Role::output},
                {"rstd", s.wide(), {s.rows}, Role::output}};
  if (kind.centred) {
    c.operands.push_back({"beta", s.type, {s.cols}});
    c.operands.push_back({"mean", s.wide(), {s.rows}, Role::output});
  }
  c.bind = [kind](const Views& v) -> Operation {
    if (!kind.centred) return RmsNorm{v["x"], v["gamma"], v["y"], v["rstd"], epsilon, kind.offset};
    return LayerNorm{v["x"], v["gamma"], v["beta"], v["y"], v["mean"], v["rstd"], epsilon};
  };
  c.prepare = move_off_centre;
  c.roundings = static_cast<double>(s.cols) + norm_roundings;  // sums over a row
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const RowStatistics row(e["x"], kind, i, s.cols);
      // The mean is off by roundings of E|x|; that moves the deviation relative to itself.
      const double moved = kind.centred ? row.absolute * row.rstd : 0;
      if (kind.centred) e.set("mean", i, row.mean, row.absolute);
      e.set("rstd", i, row.rstd, row.rstd * (1 + moved));
      for (int64_t j = 0; j < s.cols; ++j) {
        const double hat = (at(e["x"], i * s.cols + j) - row.mean) * row.rstd;
        const double gain = kind.gain(e, j), beta = kind.centred ? at(e["beta"], j) : 0;
        e.set("y", i * s.cols + j, hat * gain + beta,
              std::abs(gain) * (moved + std::abs(hat) * (1 + moved)) + std::abs(beta));
      }
    }
  };
  return c;
}

void prepare_backward(Values& v, Kind kind, int64_t cols) {
  move_off_centre(v);
  for (size_t i = 0; i < v["rstd"].size(); ++i) {
    const RowStatistics row(v["x"], kind, static_cast<int64_t>(i), cols);
    if (kind.centred) v["mean"][i] = row.mean;
    v["rstd"][i] = row.rstd;
  }
}

/// Ba, Kiros, Hinton 2016 (arXiv:1607.06450) and Zhang, Sennrich 2019 (arXiv:1910.07467),
/// differentiated by x, γ and β.
void gradient(Expected& e, const Setting& s, Kind kind) {
  const auto n = static_cast<double>(s.cols);
  for (int64_t i = 0; i < s.rows; ++i) {
    const double mean = kind.centred ? at(e["mean"], i) : 0, rstd = at(e["rstd"], i);
    const auto hat = [&](int64_t j) { return (at(e["x"], i * s.cols + j) - mean) * rstd; };
    const auto dy = [&](int64_t j) { return at(e["dy"], i * s.cols + j); };
    double mean_g = 0, mean_gh = 0, abs_g = 0, abs_gh = 0;
    for (int64_t j = 0; j < s.cols; ++j) {
      const double g = dy(j) * kind.gain(e, j);
      if (kind.centred) mean_g += g / n;
      mean_gh += g * hat(j) / n;
      abs_g += std::abs(g) / n;
      abs_gh += std::abs(g * hat(j)) / n;
    }
    for (int64_t j = 0; j < s.cols; ++j) {
      const double g = dy(j) * kind.gain(e, j);
      const double add = e.has("add") ? at(e["add"], i * s.cols + j) : 0;
      e.set("dx", i * s.cols + j, rstd * (g - mean_g - hat(j) * mean_gh) + add,
            rstd * (std::abs(g) + abs_g + std::abs(hat(j)) * abs_gh) + std::abs(add));
      e.add("dgamma", j, dy(j) * hat(j));
      if (kind.centred) e.add("dbeta", j, dy(j));
    }
  }
}

/// narrow: gradients of parameters have the parameters' type.
Case backward_norm(const Setting& s, Kind kind, bool residual, bool narrow) {
  const DType of_parameters = s.narrow_or_wide(narrow);
  Case c;
  c.operands = {{"dy", s.type, s.shape()},
                {"x", s.type, s.shape()},
                {"rstd", s.wide(), {s.rows}, Role::input, Draw::positive},
                {"gamma", s.type, {s.cols}},
                {"dx", s.type, s.shape(), Role::output},
                {"dgamma", of_parameters, {s.cols}, Role::updated}};
  if (kind.centred) {
    c.operands.push_back({"mean", s.wide(), {s.rows}});
    c.operands.push_back({"dbeta", of_parameters, {s.cols}, Role::updated});
  }
  if (residual) {
    c.operands.push_back({"add", s.type, s.shape()});
    c.aliases = {{"dx", "add"}};
  }
  c.bind = [kind](const Views& v) -> Operation {
    if (!kind.centred)
      return RmsNormBackward{v["dy"],  v["x"],  v["rstd"],   v["gamma"],
                             v["add"], v["dx"], v["dgamma"], kind.offset};
    return LayerNormBackward{v["dy"],  v["x"],  v["mean"],   v["rstd"], v["gamma"],
                             v["add"], v["dx"], v["dgamma"], v["dbeta"]};
  };
  c.prepare = [=](Values& v) { prepare_backward(v, kind, s.cols); };
  c.roundings = static_cast<double>(std::max(s.rows, s.cols)) + norm_roundings;
  c.reference = [=](Expected& e) { gradient(e, s, kind); };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<LayerNorm>() {
  return {{"layer-norm", with(forward_norm, layer_norm), {}, {0, 160}, norm_edges()}};
}

template <>
std::vector<Row> rows_of<LayerNormBackward>() {
  return {
      {"layer-norm-backward",
       with(backward_norm, layer_norm, false, false),
       {"layer-norm"},
       {0, 264},
       norm_edges()},
      {"layer-norm-backward/residual", with(backward_norm, layer_norm, true, false), {}, {0, 312}},
      {"layer-norm-backward/narrow", with(backward_norm, layer_norm, false, true), {}, {0, 232}}};
}

template <>
std::vector<Row> rows_of<RmsNorm>() {
  return {{"rms-norm", with(forward_norm, rms_norm), {}, {0, 128}, norm_edges()},
          {"rms-norm/offset", with(forward_norm, rms_norm_from_one), {}, {0, 128}}};
}

template <>
std::vector<Row> rows_of<RmsNormBackward>() {
  return {{"rms-norm-backward",
           with(backward_norm, rms_norm, false, false),
           {"rms-norm"},
           {0, 208},
           norm_edges()},
          {"rms-norm-backward/offset",
           with(backward_norm, rms_norm_from_one, false, false),
           {"rms-norm/offset"},
           {0, 208}},
          {"rms-norm-backward/residual", with(backward_norm, rms_norm, true, false), {}, {0, 256}},
          {"rms-norm-backward/narrow", with(backward_norm, rms_norm, false, true), {}, {0, 192}}};
}

}  // namespace frugal::kernels::table
