#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// Form of Softmax and of its backward operation.
struct SoftmaxForm {
  bool causal = false, dropout = false, keep_mask = false;

  /// causal: square matrices, as many as have the setting's rows.
  Shape shape(const Setting& s) const {
    return causal ? Shape{(s.rows + s.cols - 1) / s.cols, s.cols, s.cols}
                  : Shape{2, s.rows, s.cols};
  }
  /// Columns that row r of all matrices sees.
  int64_t visible(const Setting& s, int64_t r) const { return causal ? r % s.cols + 1 : s.cols; }
};

constexpr SoftmaxForm whole_softmax{}, stored_softmax{true, true, true};
constexpr SoftmaxForm regenerated_softmax{true, true, false};
constexpr float scale = 0.75F;

Dropout attention_dropout(const Setting& s, bool active) {
  if (!active) return {};
  return {0.3F, {s.seed, 4, 9}, scattered(s.seed, 3 * s.cols)};
}

/// Softmax of every row of x [rows, cols]; calls put(element, p, |factor · (x − max)| and its mean
/// under p) for the elements that a row sees.
template <class Put>
void softmax_rows(const std::vector<double>& x, const Setting& s, const SoftmaxForm& form,
                  double factor, const Put& put) {
  for (int64_t r = 0; r < static_cast<int64_t>(x.size()) / s.cols; ++r) {
    const int64_t first = r * s.cols, n = form.visible(s, r);
    double largest = -INFINITY, sum = 0, spread = 0;
    const auto argument = [&](int64_t j) { return factor * at(x, first + j) - largest; };
    for (int64_t j = 0; j < n; ++j) largest = std::max(largest, factor * at(x, first + j));
    for (int64_t j = 0; j < n; ++j) sum += std::exp(argument(j));
    for (int64_t j = 0; j < n; ++j) spread -= std::exp(argument(j)) * argument(j) / sum;
    for (int64_t j = 0; j < n; ++j)
      put(first + j, std::exp(argument(j)) / sum, 1 + std::abs(argument(j)) + spread);
  }
}

Case softmax(const Setting& s, const SoftmaxForm& form) {
  const Shape shape = form.shape(s);
  const Dropout dropout = attention_dropout(s, form.dropout);
  Case c;
  c.operands = {{"x", s.type, shape}, {"p", s.type, shape, Role::output}};
  if (form.keep_mask) c.operands.push_back({"mask", DType::u8, shape, Role::output});
  if (form.dropout) c.operands.push_back({"dropped", s.type, shape, Role::output});
  c.bind = [form, dropout](const Views& v) {
    return Softmax{v["x"], v["p"], v["mask"], v["dropped"], scale, form.causal, dropout};
  };
  c.aliases = {{"p", "x"}};
  c.roundings = static_cast<double>(s.cols) + 16;  // a sum over a row of exponentials
  c.storage_roundings = 2;                         // `dropped` may come from a stored p
  c.reference = [=](Expected& e) {
    for (const char* name : {"p", "dropped", "mask"})
      if (e.has(name)) e.set_all(name, [](int64_t) { return 0.0; });
    softmax_rows(e["x"], s, form, static_cast<double>(scale),
                 [&](int64_t i, double p, double condition) {
                   e.set("p", i, p, p * condition);
                   const double factor = dropout_factor(dropout, i);
                   if (form.dropout) e.set("dropped", i, p * factor, p * factor * condition);
                   if (form.keep_mask) e.set("mask", i, factor > 0 ? 1 : 0);
                 });
  };
  return c;
}

Case softmax_backward(const Setting& s, const SoftmaxForm& form) {
  const Shape shape = form.shape(s);
  const Dropout dropout = attention_dropout(s, form.dropout);
  const std::string dy = form.dropout ? "ddropped" : "dp";
  Case c;
  c.operands = {{dy, s.type, shape},
                {"p", s.type, shape, Role::input, Draw::fraction},
                {"dx", s.type, shape, Role::output}};
  if (form.keep_mask) c.operands.push_back({"mask", DType::u8, shape, Role::input, Draw::bit});
  c.bind = [=](const Views& v) {
    return SoftmaxBackward{v[dy], v["p"], v["mask"], v["dx"], scale, form.causal, dropout};
  };
  c.prepare = [=](Values& v) {
    const std::vector<double> logits = v["p"];
    std::fill(v["p"].begin(), v["p"].end(), 0);
    softmax_rows(logits, s, form, 1, [&](int64_t i, double p, double) { at(v["p"], i) = p; });
    if (form.keep_mask) decide(v["mask"], dropout);
  };
  c.aliases = {{"dx", dy}};
  c.roundings = static_cast<double>(s.cols) + 16;  // a dot product over a row
  c.reference = [=](Expected& e) {
    const auto dp = [&](int64_t i) { return at(e[dy], i) * dropout_factor(dropout, i); };
    for (int64_t first = 0; first < shape.size(); first += s.cols) {
      double dot = 0, magnitude = 0;
      for (int64_t i = first; i < first + s.cols; ++i) {
        dot += at(e["p"], i) * dp(i);
        magnitude += std::abs(at(e["p"], i) * dp(i));
      }
      for (int64_t i = first; i < first + s.cols; ++i) {
        const double factor = static_cast<double>(scale) * at(e["p"], i);
        e.set("dx", i, factor * (dp(i) - dot), factor * (std::abs(dp(i)) + magnitude));
      }
    }
  };
  return c;
}

/// Form of fused attention and of its backward operation. packed: q, k and v are inside one tensor,
/// as a transformer has them.
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

/// Sizes and operands of fused attention.
struct AttentionSizes {
  AttentionForm form;
  DType type;
  int64_t groups, heads, batch, rows, cols, d;
  Dropout dropout;

  AttentionSizes(const Setting& s, const AttentionForm& f)
      : form(f),
        type(s.type),
        groups(f.causal ? (s.rows + s.cols - 1) / s.cols : 2),
        heads(f.heads),
        batch(groups * heads),
        rows(f.causal ? s.cols : s.rows),
        cols(s.cols),
        d(5 + s.cols % 16),
        dropout(attention_dropout(s, f.dropout)) {}

  Shape like_q() const {
    if (form.packed) return {rows, groups, heads * d};
    return heads == 1 ? Shape{groups, rows, d} : Shape{groups, heads, rows, d};
  }
  /// One matrix of each group, from the `which`-th of `of` in a packed tensor.
  View matrices(const View& v, int64_t which, int64_t of) const {
    if (!form.packed) return v;
    return v.strided(which * d, {groups, rows, d}, {of * d, groups * of * d, 1});
  }
  /// Heads of each group, the first of `of` in a packed tensor.
  View all_heads(const View& v, int64_t of) const {
    if (!form.packed || heads == 1) return matrices(v, 0, of);
    return v.strided(0, {groups, heads, rows, d}, {of * d, d, groups * of * d, 1});
  }
  std::string name(const char* prefix, const char* part) const {
    return std::string(prefix) + (form.packed ? "qkv" : part);
  }
  /// Adds q, k and v, or their gradients by a prefix "d", which a case binds by three views.
  void add(Case& c, const char* prefix, Role role) const {
    if (form.packed) {
      c.operands.push_back({name(prefix, ""), type, {rows, groups, (heads + 2) * d}, role});
      return;
    }
    c.operands.push_back({name(prefix, "q"), type, like_q(), role});
    c.operands.push_back({name(prefix, "k"), type, {groups, cols, d}, role});
    c.operands.push_back({name(prefix, "v"), type, {groups, cols, d}, role});
  }
  View q(const Views& v, const char* prefix) const {
    return all_heads(v[name(prefix, "q")], heads + 2);
  }
  View k(const Views& v, const char* prefix) const {
    return matrices(v[name(prefix, "k")], heads, heads + 2);
  }
  View v(const Views& v, const char* prefix) const {
    return matrices(v[name(prefix, "v")], heads + 1, heads + 2);
  }
  FusedAttention bound(const Views& all) const {
    return {.q = q(all, ""),
            .k = k(all, ""),
            .v = v(all, ""),
            .y = all_heads(all["y"], heads),
            .log_sum_exp = all["log_sum_exp"],
            .scale = 1.0F / std::sqrt(static_cast<float>(d)),
            .causal = form.causal,
            .window = form.windowed ? 1 + cols / 3 : 0,
            .softcap = form.softcap,
            .dropout = dropout};
  }
  /// Roundings of sums over columns, or over the rows of all heads.
  double roundings() const { return static_cast<double>(cols + heads * rows + d + 64); }
  /// Relative error that rounding a probability or its gradient to T adds, in roundings().
  double stored() const {
    return unit_roundoff(type) / unit_roundoff(accumulation_type(type)) / roundings();
  }
};

/// Scores that row i of matrix b sees, f(scale · q · kᵀ), the magnitude of their terms, and f'.
struct Scores {
  int64_t begin, end;
  std::vector<double> x, magnitude, slope;

  Scores(const FusedAttention& op, int64_t b, int64_t i)
      : begin(op.first_seen(i)),
        end(op.causal ? i + 1 : op.cols()),
        x(static_cast<size_t>(end - begin)),
        magnitude(x.size()),
        slope(x.size(), 1) {
    const auto cap = static_cast<double>(op.softcap);
    for (int64_t j = begin; j < end; ++j) {
      double &score = at(x, j - begin), &size = at(magnitude, j - begin);
      for (int64_t l = 0; l < op.q.cols(); ++l) {
        const double term = static_cast<double>(op.scale) * element(op.q, b, i, l) *
                            element(op.k, b / op.heads(), j, l);
        score += term;
        size += std::abs(term);
      }
      if (op.softcap == 0) continue;
      const double t = std::tanh(score / cap);
      size += std::abs(cap * t);
      score = cap * t;
      at(slope, j - begin) = 1 - t * t;
    }
  }
};

/// Probabilities of a row's scores, with relative errors in the unit of Case::roundings.
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
void each_row(const FusedAttention& op, const F& f) {
  for (int64_t b = 0; b < op.batch(); ++b)
    for (int64_t i = 0; i < op.rows(); ++i) f(b, i);
}

void attention_row(Expected& e, const FusedAttention& op, double stored, int64_t b, int64_t i) {
  const Scores scores(op, b, i);
  const Probabilities row(scores);
  e.set(element(op.log_sum_exp, 0, b, i), row.log_sum_exp, row.uncertainty);
  for (int64_t l = 0; l < op.q.cols(); ++l) {
    double sum = 0, magnitude = 0;
    for (int64_t j = scores.begin; j < scores.end; ++j) {
      const double term = at(row.p, j - scores.begin) *
                          dropout_factor(op.dropout, (b * op.rows() + i) * op.cols() + j) *
                          element(op.v, b / op.heads(), j, l);
      sum += term;
      magnitude += std::abs(term) * (at(row.condition, j - scores.begin) + 2 * stored);
    }
    e.set(element(op.y, b, i, l), sum, magnitude);
  }
}

Case attention(const Setting& s, const AttentionForm& form) {
  const AttentionSizes z(s, form);
  Case c;
  z.add(c, "", Role::input);
  c.operands.push_back({"y", s.type, z.like_q(), Role::output});
  c.operands.push_back({"log_sum_exp", s.wide(), {z.batch, z.rows}, Role::output});
  c.bind = [=](const Views& v) { return z.bound(v); };
  c.roundings = z.roundings();
  c.refer<FusedAttention>([=](Expected& e, const FusedAttention& op) {
    each_row(op, [&](int64_t b, int64_t i) { attention_row(e, op, z.stored(), b, i); });
  });
  return c;
}

/// Adds row i's part of matrix b to the three gradients.
void attention_backward_row(Expected& e, const FusedAttentionBackward& op, double stored, int64_t b,
                            int64_t i) {
  const FusedAttention& forward = op.forward;
  const int64_t d = forward.q.cols(), g = b / forward.heads();
  const Scores scores(forward, b, i);
  const double log_sum_exp = element(forward.log_sum_exp, 0, b, i);
  double dot = 0, dot_magnitude = 0;
  for (int64_t l = 0; l < d; ++l) {
    const double term = element(op.dy, b, i, l) * element(forward.y, b, i, l);
    dot += term;
    dot_magnitude += std::abs(term);
  }
  for (int64_t j = scores.begin; j < scores.end; ++j) {
    const int64_t at_j = j - scores.begin;
    const double p = std::exp(at(scores.x, at_j) - log_sum_exp);
    const auto scale_of_score = static_cast<double>(forward.scale);
    const double factor =
        dropout_factor(forward.dropout, (b * forward.rows() + i) * forward.cols() + j);
    const double condition = 2 + at(scores.magnitude, at_j) + 2 * std::abs(log_sum_exp);
    double dp = 0, dp_magnitude = 0;
    for (int64_t l = 0; l < d; ++l) {
      const double dy = element(op.dy, b, i, l);
      const double term = factor * dy * element(forward.v, g, j, l);
      dp += term;
      dp_magnitude += std::abs(term);
      e.add(element(op.dv, g, j, l), p * factor * dy,
            std::abs(p * factor * dy) * (condition + 2 * stored));
    }
    const double ds = scale_of_score * p * (dp - dot) * at(scores.slope, at_j);
    const double magnitude =
        scale_of_score * p * condition * (dp_magnitude + dot_magnitude) + 2 * stored * std::abs(ds);
    for (int64_t l = 0; l < d; ++l) {
      const double q = element(forward.q, b, i, l), k = element(forward.k, g, j, l);
      e.add(element(op.dq, b, i, l), ds * k, magnitude * std::abs(k));
      e.add(element(op.dk, g, j, l), ds * q, magnitude * std::abs(q));
    }
  }
}

Case attention_backward(const Setting& s, const AttentionForm& form) {
  const AttentionSizes z(s, form);
  Case c;
  z.add(c, "", Role::input);
  c.operands.push_back({"y", s.type, z.like_q()});
  c.operands.push_back({"log_sum_exp", s.wide(), {z.batch, z.rows}});
  c.operands.push_back({"dy", s.type, z.like_q()});
  z.add(c, "d", Role::output);
  c.bind = [=](const Views& v) {
    return FusedAttentionBackward{z.bound(v), z.all_heads(v["dy"], z.heads), z.q(v, "d"),
                                  z.k(v, "d"), z.v(v, "d")};
  };
  c.prepare = [=, operands =
                      c.operands](Values& v) {  // y stays random: only its product with dy counts
    Expected e(v);
    const FusedAttention op = z.bound(e.views(operands));
    const double elsewhere = z.form.partial ? 0.7 : 0;  // of the other columns
    each_row(op, [&](int64_t b, int64_t i) {
      at(v["log_sum_exp"], b * z.rows + i) =
          Probabilities(Scores(op, b, i)).log_sum_exp + elsewhere;
    });
  };
  c.roundings = z.roundings();
  c.refer<FusedAttentionBackward>([=](Expected& e, const FusedAttentionBackward& op) {
    for (const char* part : {"q", "k", "v"})
      e.set_all(z.name("d", part), [](int64_t) { return 0.0; });
    each_row(op.forward,
             [&](int64_t b, int64_t i) { attention_backward_row(e, op, z.stored(), b, i); });
  });
  return c;
}

/// by_rows: y and the part that is merged into it lie as a transformer has them, [rows, batch, d],
/// not [batch, rows, d]; the logarithmic sums are the last rows of as many again.
Case merge(const Setting& s, bool by_rows) {
  constexpr int64_t batch = 2;
  const int64_t rows = s.rows, d = s.cols, before = by_rows ? rows : 0;
  const Shape matrices{batch, rows, d}, whole = by_rows ? Shape{rows, batch, d} : matrices;
  const auto view = [=](const View& v) {
    return by_rows ? v.strided(0, matrices, {d, batch * d, 1}) : v;
  };
  Case c;
  c.operands = {{"y", s.wide(), whole, Role::updated},
                {"log_sum_exp", s.wide(), {batch, before + rows}, Role::updated},
                {"part", s.type, whole},
                {"part_log_sum_exp", s.wide(), {batch, rows}}};
  c.bind = [=](const Views& v) {
    return MergeAttention{view(v["y"]), v["log_sum_exp"].sliced(1, before, rows), view(v["part"]),
                          v["part_log_sum_exp"]};
  };
  c.prepare = [a = s.wide()](Values& v) {  // far enough apart that one may count for little
    for (double& x : v["part_log_sum_exp"]) x = round_to(a, 8 * x);
  };
  c.roundings = 16;
  c.refer<MergeAttention>([=](Expected& e, const MergeAttention& op) {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < rows; ++i) {
        const double own = element(op.log_sum_exp, 0, b, i);
        const double other = element(op.part_log_sum_exp, 0, b, i);
        const double all = std::max(own, other) + std::log1p(std::exp(-std::abs(own - other)));
        // Of an exponential's argument, a difference of the two.
        const double condition = 1 + std::abs(own - other);
        for (int64_t j = 0; j < d; ++j) {
          const double kept = element(op.y, b, i, j) * std::exp(own - all);
          const double added = element(op.part, b, i, j) * std::exp(other - all);
          e.set(element(op.y, b, i, j), kept + added,
                (std::abs(kept) + std::abs(added)) * condition);
        }
        e.set(element(op.log_sum_exp, 0, b, i), all, std::abs(own) + std::abs(other) + 1);
      }
  });
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

template <>
std::vector<Row> rows_of<MergeAttention>() {
  return {{"merge-attention", with(merge, false), {}, {0, 624}},
          {"merge-attention/model", with(merge, true), {}, {0, 624}}};
}

}  // namespace frugal::kernels::table
