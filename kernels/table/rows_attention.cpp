#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Which of the operation's forms; packed: q, k and v inside one tensor, as a transformer has them.
struct AttentionForm {
  bool causal = false, dropout = false, packed = false;
  int64_t heads = 1;      ///< that share k and v; more than 1: q has four dimensions
  bool windowed = false;  ///< each row sees about a third of the columns
  float softcap = 0;
  bool partial = false;  ///< k and v are a part of the columns, in the backward operation
};

constexpr AttentionForm plain, causal{.causal = true};
constexpr AttentionForm model{.causal = true, .dropout = true, .packed = true};
constexpr AttentionForm grouped{.causal = true, .dropout = true, .heads = 3};
constexpr AttentionForm windowed{.causal = true, .windowed = true}, capped{.softcap = 1.5F};
constexpr AttentionForm all_at_once{
    .causal = true, .packed = true, .heads = 3, .windowed = true, .softcap = 1.5F};

/// Sizes of operands, and positions of elements in them.
struct AttentionSizes {
  AttentionForm form;
  int64_t groups, heads, batch, rows, cols, d, window;

  AttentionSizes(const Setting& s, const AttentionForm& f)
      : form(f),
        groups(f.causal ? (s.rows + s.cols - 1) / s.cols : 2),
        heads(f.heads),
        batch(groups * heads),
        rows(f.causal ? s.cols : s.rows),
        cols(s.cols),
        d(5 + s.cols % 16),
        window(f.windowed ? 1 + s.cols / 3 : 0) {}

  Shape like_q() const {
    if (form.packed) return {rows, groups, heads * d};
    return heads == 1 ? Shape{groups, rows, d} : Shape{groups, heads, rows, d};
  }
  Shape like_k() const { return {groups, cols, d}; }
  Shape packed() const { return {rows, groups, (heads + 2) * d}; }
  /// One matrix of each group, from the `which`-th of `of` in a packed tensor.
  View matrices(const View& v, int64_t which, int64_t of) const {
    if (!form.packed) return v;
    return v.strided(which * d, {groups, rows, d}, {of * d, groups * of * d, 1});
  }
  /// The heads of each group, the first of `of` in a packed tensor.
  View all_heads(const View& v, int64_t of) const {
    if (!form.packed || heads == 1) return matrices(v, 0, of);
    return v.strided(0, {groups, heads, rows, d}, {of * d, d, groups * of * d, 1});
  }
  int64_t at(int64_t g, int64_t i, int64_t l, int64_t which, int64_t of) const {
    return ((i * groups + g) * of + which) * d + l;
  }
  int64_t q(int64_t b, int64_t i, int64_t l) const { return of_head(b, i, l, heads + 2); }
  int64_t y(int64_t b, int64_t i, int64_t l) const { return of_head(b, i, l, heads); }
  int64_t k(int64_t b, int64_t j, int64_t l) const { return of_group(b, j, l, heads); }
  int64_t v(int64_t b, int64_t j, int64_t l) const { return of_group(b, j, l, heads + 1); }
  int64_t of_head(int64_t b, int64_t i, int64_t l, int64_t of) const {
    return form.packed ? at(b / heads, i, l, b % heads, of) : (b * rows + i) * d + l;
  }
  int64_t of_group(int64_t b, int64_t j, int64_t l, int64_t which) const {
    const int64_t g = b / heads;
    return form.packed ? at(g, j, l, which, heads + 2) : (g * cols + j) * d + l;
  }
  /// The columns that row i sees.
  int64_t begin(int64_t i) const {
    return form.windowed ? std::max<int64_t>(0, i + 1 - window) : 0;
  }
  int64_t end(int64_t i) const { return form.causal ? i + 1 : cols; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d)); }

  std::string name(const char* part) const { return form.packed ? "qkv" : part; }
  std::string gradient(const char* part) const { return std::string("d").append(name(part)); }
  /// q, k and v, or their gradients: what stands before their names, and their role.
  void add(Case& c, const Setting& s, const char* prefix, Role role) const {
    const auto named = [&](const char* part) { return std::string(prefix).append(name(part)); };
    if (form.packed) {
      c.operands.push_back({named("q"), s.type, packed(), role});
      return;
    }
    c.operands.push_back({named("q"), s.type, like_q(), role});
    c.operands.push_back({named("k"), s.type, like_k(), role});
    c.operands.push_back({named("v"), s.type, like_k(), role});
  }
  /// Of sums over columns, or over the rows of all heads.
  double roundings() const { return static_cast<double>(cols + heads * rows + d + 64); }
};

Dropout dropout_of(const Setting& s, const AttentionForm& form) {
  if (!form.dropout) return {};
  return {0.3F, {s.seed, 4, 9}, scattered(s.seed, 3 * s.cols)};
}

/// What rounding a probability or its gradient to T adds to its relative error, in the unit of
/// Case::roundings.
double stored(const Setting& s, const AttentionSizes& sizes) {
  return unit_roundoff(s.type) / unit_roundoff(accumulation_type(s.type)) / sizes.roundings();
}

/// The scores that a row sees, f(scale · q · kᵀ), how large their terms are, and f'.
struct Scores {
  int64_t begin, end;
  std::vector<double> x, magnitude, slope;

  template <class Container>  // by name
  Scores(Container& e, const AttentionSizes& z, int64_t b, int64_t i)
      : begin(z.begin(i)),
        end(z.end(i)),
        x(static_cast<size_t>(end - begin)),
        magnitude(x.size()),
        slope(x.size(), 1) {
    const std::vector<double>&q = e[z.name("q")], &k = e[z.name("k")];
    for (int64_t j = begin; j < end; ++j) {
      double &score = table::at(x, j - begin), &size = table::at(magnitude, j - begin);
      for (int64_t l = 0; l < z.d; ++l) {
        const double term = static_cast<double>(z.scale()) * table::at(q, z.q(b, i, l)) *
                            table::at(k, z.k(b, j, l));
        score += term;
        size += std::abs(term);
      }
      if (z.form.softcap == 0) continue;
      const double cap = static_cast<double>(z.form.softcap), t = std::tanh(score / cap);
      size += std::abs(cap * t);
      score = cap * t;
      table::at(slope, j - begin) = 1 - t * t;
    }
  }
};

/// The same after softmax, with relative errors in the unit of Case::roundings.
struct Probabilities {
  std::vector<double> p, condition;
  double log_sum_exp = 0, uncertainty = 0;

  explicit Probabilities(const Scores& s) : p(s.x.size()), condition(s.x.size()) {
    const double largest = *std::max_element(s.x.begin(), s.x.end());
    double sum = 0;
    for (size_t j = 0; j < p.size(); ++j) sum += p[j] = std::exp(s.x[j] - largest);
    log_sum_exp = largest + std::log(sum);
    for (size_t j = 0; j < p.size(); ++j) {
      p[j] /= sum;
      condition[j] = 1 + s.magnitude[j] + 2 * std::abs(s.x[j] - largest);
      uncertainty += p[j] * condition[j];
    }
    for (double& c : condition) c += uncertainty;
    uncertainty += std::abs(largest) + std::abs(std::log(sum));
  }
};

/// f(b, i) for all rows of all matrices.
template <class F>
void each_row(const AttentionSizes& z, const F& f) {
  for (int64_t b = 0; b < z.batch; ++b)
    for (int64_t i = 0; i < z.rows; ++i) f(b, i);
}

FusedAttention bound(const Views& v, const AttentionSizes& z, const Dropout& dropout) {
  const int64_t of = z.heads + 2;
  return {.q = z.all_heads(v[z.name("q")], of),
          .k = z.matrices(v[z.name("k")], z.heads, of),
          .v = z.matrices(v[z.name("v")], z.heads + 1, of),
          .y = z.all_heads(v["y"], z.heads),
          .log_sum_exp = v["log_sum_exp"],
          .scale = z.scale(),
          .causal = z.form.causal,
          .window = z.window,
          .softcap = z.form.softcap,
          .dropout = dropout};
}

Case attention(const Setting& s, const AttentionForm& form) {
  const AttentionSizes z(s, form);
  const Dropout dropout = dropout_of(s, form);
  Case c;
  z.add(c, s, "", Role::input);
  c.operands.push_back({"y", s.type, z.like_q(), Role::output});
  c.operands.push_back({"log_sum_exp", accumulation_type(s.type), {z.batch, z.rows}, Role::output});
  c.bind = [=](const Views& v) { return bound(v, z, dropout); };
  c.roundings = z.roundings();
  c.reference = [=](Expected& e) {
    each_row(z, [&](int64_t b, int64_t i) {
      const Scores scores(e, z, b, i);
      const Probabilities row(scores);
      e.set("log_sum_exp", b * z.rows + i, row.log_sum_exp, row.uncertainty);
      for (int64_t l = 0; l < z.d; ++l) {
        double sum = 0, magnitude = 0;
        for (int64_t j = scores.begin; j < scores.end; ++j) {
          const double term = at(row.p, j - scores.begin) *
                              dropout_factor(dropout, (b * z.rows + i) * z.cols + j) *
                              at(e[z.name("v")], z.v(b, j, l));
          sum += term;
          magnitude += std::abs(term) * (at(row.condition, j - scores.begin) + 2 * stored(s, z));
        }
        e.set("y", z.y(b, i, l), sum, magnitude);
      }
    });
  };
  return c;
}

/// Sums of products, with magnitudes, over an operand.
class Sums {
 public:
  explicit Sums(int64_t size) : value_(static_cast<size_t>(size)), magnitude_(value_) {}
  void add(int64_t i, double term, double condition) {
    at(value_, i) += term;
    at(magnitude_, i) += std::abs(term) * condition;
  }
  void add_between(int64_t i, double term, double magnitude) {
    at(value_, i) += term;
    at(magnitude_, i) += magnitude;
  }
  void set(Expected& e, const std::string& name) const {
    for (size_t i = 0; i < value_.size(); ++i)
      e.set(name, static_cast<int64_t>(i), value_[i], magnitude_[i]);
  }

 private:
  std::vector<double> value_, magnitude_;
};

/// What row i of matrix b adds to the three gradients.
void backward_row(const Expected& e, const Setting& s, const AttentionSizes& z,
                  const Dropout& dropout, int64_t b, int64_t i, Sums& dq, Sums& dk, Sums& dv) {
  const Scores scores(e, z, b, i);
  const double log_sum_exp = at(e["log_sum_exp"], b * z.rows + i);
  double dot = 0, dot_magnitude = 0;
  for (int64_t l = 0; l < z.d; ++l) {
    const double term = at(e["dy"], z.y(b, i, l)) * at(e["y"], z.y(b, i, l));
    dot += term;
    dot_magnitude += std::abs(term);
  }
  for (int64_t j = scores.begin; j < scores.end; ++j) {
    const int64_t at_j = j - scores.begin;
    const double p = std::exp(at(scores.x, at_j) - log_sum_exp),
                 scale = static_cast<double>(z.scale());
    const double factor = dropout_factor(dropout, (b * z.rows + i) * z.cols + j);
    const double condition = 2 + at(scores.magnitude, at_j) + 2 * std::abs(log_sum_exp);
    double dp = 0, dp_magnitude = 0;
    for (int64_t l = 0; l < z.d; ++l) {
      const double dy = at(e["dy"], z.y(b, i, l));
      const double term = factor * dy * at(e[z.name("v")], z.v(b, j, l));
      dp += term;
      dp_magnitude += std::abs(term);
      dv.add(z.v(b, j, l), p * factor * dy, condition + 2 * stored(s, z));
    }
    const double ds = scale * p * (dp - dot) * at(scores.slope, at_j);
    const double magnitude =
        scale * p * condition * (dp_magnitude + dot_magnitude) + 2 * stored(s, z) * std::abs(ds);
    for (int64_t l = 0; l < z.d; ++l) {
      const double q = at(e[z.name("q")], z.q(b, i, l)), k = at(e[z.name("k")], z.k(b, j, l));
      dq.add_between(z.q(b, i, l), ds * k, magnitude * std::abs(k));
      dk.add_between(z.k(b, j, l), ds * q, magnitude * std::abs(q));
    }
  }
}

void backward_reference(Expected& e, const Setting& s, const AttentionSizes& z,
                        const Dropout& dropout) {
  const auto size = [&](const char* part) {
    return static_cast<int64_t>(e[z.gradient(part)].size());
  };
  Sums dq(size("q")), dk(size("k")), dv(size("v"));
  // In a packed tensor each of the three is the sum of all.
  Sums& dk_in = z.form.packed ? dq : dk;
  Sums& dv_in = z.form.packed ? dq : dv;
  each_row(z,
           [&](int64_t b, int64_t i) { backward_row(e, s, z, dropout, b, i, dq, dk_in, dv_in); });
  dq.set(e, z.gradient("q"));
  if (z.form.packed) return;
  dk.set(e, "dk");
  dv.set(e, "dv");
}

Case attention_backward(const Setting& s, const AttentionForm& form) {
  const AttentionSizes z(s, form);
  const Dropout dropout = dropout_of(s, form);
  Case c;
  z.add(c, s, "", Role::input);
  c.operands.push_back({"y", s.type, z.like_q()});
  c.operands.push_back({"log_sum_exp", accumulation_type(s.type), {z.batch, z.rows}});
  c.operands.push_back({"dy", s.type, z.like_q()});
  z.add(c, s, "d", Role::output);
  c.bind = [=, of = z.heads + 2](const Views& v) {
    return FusedAttentionBackward{.forward = bound(v, z, dropout),
                                  .dy = z.all_heads(v["dy"], z.heads),
                                  .dq = z.all_heads(v[z.gradient("q")], of),
                                  .dk = z.matrices(v[z.gradient("k")], z.heads, of),
                                  .dv = z.matrices(v[z.gradient("v")], z.heads + 1, of)};
  };
  c.prepare = [=](Values& v) {  // y stays random: only its product with dy counts
    const double elsewhere = z.form.partial ? 0.7 : 0;  // what the other columns add
    each_row(z, [&](int64_t b, int64_t i) {
      at(v["log_sum_exp"], b * z.rows + i) =
          Probabilities(Scores(v, z, b, i)).log_sum_exp + elsewhere;
    });
  };
  c.roundings = z.roundings();
  c.reference = [=](Expected& e) { backward_reference(e, s, z, dropout); };
  return c;
}

}  // namespace

// Setting{bf16, 6, 4} has d = 9: plain 2 matrices of 6 x 4 pairs, causal of 10 pairs, of which a
// window of 2 leaves 7.
template <>
std::vector<Row> rows_of<FusedAttention>() {
  return {{"fused-attention", with(attention, plain), {}, {1728, 768}},
          {"fused-attention/causal", with(attention, causal), {}, {720, 608}},
          {"fused-attention/model", with(attention, model), {}, {720, 608}},
          {"fused-attention/grouped", with(attention, grouped), {}, {2160, 1248}},
          {"fused-attention/window", with(attention, windowed), {}, {504, 608}},
          {"fused-attention/softcap", with(attention, capped), {}, {1728, 768}},
          {"fused-attention/all", with(attention, all_at_once), {}, {1512, 1248}}};
}

template <>
std::vector<Row> rows_of<FusedAttentionBackward>() {
  const auto row = [](const std::string& variant, const AttentionForm& form, const Cost& cost) {
    return Row{"fused-attention-backward" + variant,
               with(attention_backward, form),
               {"fused-attention" + variant},
               cost};
  };
  return {row("", plain, {4320, 1488}),
          row("/causal", causal, {1800, 1184}),
          row("/model", model, {1800, 1184}),
          row("/grouped", grouped, {5400, 2400}),
          row("/window", windowed, {1260, 1184}),
          row("/softcap", capped, {4320, 1488}),
          row("/all", all_at_once, {3780, 2400}),
          {"fused-attention-backward/partial",
           with(attention_backward, AttentionForm{.partial = true}),
           {},
           {4320, 1488}}};
}

}  // namespace frugal::kernels::table
