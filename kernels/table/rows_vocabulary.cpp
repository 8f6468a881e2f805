#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

constexpr int64_t first_id = 7;

int64_t shard_rows(const Setting& s) { return s.rows / 2 + 3; }

Operand ids(const Setting& s) {
  return {"ids", DType::i32, {s.rows}, Role::input, Draw::id, shard_rows(s)};
}
void move_ids(Values& v) {
  for (double& id : v["ids"]) id += first_id;
  v["ids"][0] = first_id;  // one at least is in the shard
}
/// Row of the table that row i of y comes from, or −1.
int64_t table_row(const Expected& e, const Setting& s, int64_t i) {
  const int64_t local = static_cast<int64_t>(at(e["ids"], i)) - first_id;
  return local >= 0 && local < shard_rows(s) ? local : -1;
}

Case embedding(const Setting& s, float scale) {
  Case c;
  c.operands = {
      ids(s), {"table", s.type, {shard_rows(s), s.cols}}, {"y", s.type, s.shape(), Role::output}};
  c.bind = [scale](const Views& v) {
    return Embedding{v["ids"], v["table"], v["y"], first_id, scale};
  };
  c.prepare = move_ids;
  c.roundings = scale == 1 ? 0 : 1;  // copies are exact
  c.each("y", [=, wide = static_cast<double>(scale)](const Expected& e, int64_t i) {
    const int64_t row = table_row(e, s, i / s.cols);
    return row < 0 ? 0 : wide * at(e["table"], row * s.cols + i % s.cols);
  });
  return c;
}

/// narrow: dtable has the table's type, and few ids come up, so that what is rounded with each is
/// far off.
Case embedding_backward(const Setting& s, float scale, bool narrow) {
  Case c;
  c.operands = {ids(s),
                {"dy", s.type, s.shape()},
                {"dtable", s.narrow_or_wide(narrow), {shard_rows(s), s.cols}, Role::updated}};
  c.bind = [scale](const Views& v) {
    return EmbeddingBackward{v["ids"], v["dy"], v["dtable"], first_id, scale};
  };
  c.prepare = [narrow](Values& v) {
    move_ids(v);
    for (double& id : v["ids"])
      if (narrow && id > first_id + 1) id = first_id + 1;
  };
  c.roundings = static_cast<double>(s.rows + 1);  // all ids may be the same
  c.reference = [=, wide = static_cast<double>(scale)](Expected& e) {
    for (int64_t i = 0; i < s.size(); ++i)
      if (const int64_t row = table_row(e, s, i / s.cols); row >= 0)
        e.add("dtable", row * s.cols + i % s.cols, wide * at(e["dy"], i));
  };
  return c;
}

// Cross-entropy over a vocabulary of `shards` · cols, of which the operation holds the shard that
// begins at `first`.
struct Vocabulary {
  int64_t shards = 1, first = 0;
};

Operand labels(const Setting& s, const Vocabulary& vocabulary) {
  return {"labels", DType::i32, {s.rows}, Role::input, Draw::id, vocabulary.shards * s.cols};
}
/// Into the vocabulary, and some to ignore.
void prepare_labels(Values& v, const Setting& s, const Vocabulary& vocabulary) {
  const auto last = static_cast<double>(vocabulary.shards * s.cols - 1);
  for (int64_t i = 0; i < s.rows; ++i) {
    double& label = at(v["labels"], i);
    label = i % 5 == 3 ? CrossEntropy::ignored_label : std::clamp(label, 0.0, last);
  }
}

/// Raises later pieces of rows so long that they are summed piece by piece: each has a larger
/// maximum.
void prepare_logits(Values& v, const Setting& s, bool narrow) {
  constexpr int64_t long_row = 4096;
  if (s.cols <= long_row) return;
  std::vector<double>& x = v["logits"];
  for (int64_t i = 0; i < s.rows * s.cols; ++i) {
    const int64_t above = i % s.cols / long_row * 2;
    at(x, i) = round_to(s.narrow_or_wide(narrow), at(x, i) + static_cast<double>(above));
  }
}

/// {max, Σ exp(x − max), x[label]} of row i, and how far the exponents reach.
struct Statistics {
  double largest = -INFINITY, sum = 0, chosen = 0, reach = 0;

  Statistics() = default;
  template <class Container>  // by name: "logits", "labels"
  Statistics(Container& v, const Setting& s, const Vocabulary& vocabulary, int64_t i) {
    const std::vector<double>& x = v["logits"];
    const int64_t label = static_cast<int64_t>(at(v["labels"], i)) - vocabulary.first;
    for (int64_t j = 0; j < s.cols; ++j) largest = std::max(largest, at(x, i * s.cols + j));
    for (int64_t j = 0; j < s.cols; ++j) {
      sum += std::exp(at(x, i * s.cols + j) - largest);
      reach = std::max(reach, largest - at(x, i * s.cols + j));
    }
    if (label >= 0 && label < s.cols) chosen = at(x, i * s.cols + label);
  }
};

/// narrow: logits have the type of the gradient.
Operand logits_operand(const Setting& s, bool narrow) {
  return {"logits", s.narrow_or_wide(narrow), s.shape()};
}

Case cross_entropy_statistics(const Setting& s, const Vocabulary& vocabulary, bool narrow) {
  Case c;
  c.operands = {logits_operand(s, narrow),
                labels(s, vocabulary),
                {"statistics", s.wide(), {s.rows, 3}, Role::output}};
  c.bind = [=](const Views& v) {
    return CrossEntropyStatistics{v["logits"], v["labels"], v["statistics"], vocabulary.first};
  };
  c.prepare = [=](Values& v) {
    prepare_labels(v, s, vocabulary);
    prepare_logits(v, s, narrow);
  };
  c.roundings = static_cast<double>(s.cols) + 8;  // a sum of exponentials
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const Statistics row(e, s, vocabulary, i);
      e.set("statistics", 3 * i, row.largest);
      e.set("statistics", 3 * i + 1, row.sum, row.sum * (1 + row.reach));
      e.set("statistics", 3 * i + 2, row.chosen);
    }
  };
  return c;
}

/// Own statistics for the shard held, plausible ones for the others.
void prepare_cross_entropy(Values& v, const Setting& s, const Vocabulary& vocabulary) {
  prepare_labels(v, s, vocabulary);
  for (int64_t shard = 0; shard < vocabulary.shards; ++shard) {
    for (int64_t i = 0; i < s.rows; ++i) {
      double* const triple = &at(v["statistics"], 3 * (shard * s.rows + i));
      if (shard * s.cols == vocabulary.first) {
        const Statistics row(v, s, vocabulary, i);
        triple[0] = row.largest, triple[1] = row.sum, triple[2] = row.chosen;
      } else {
        const double label = at(v["labels"], i) - static_cast<double>(shard * s.cols);
        const bool here = label >= 0 && label < static_cast<double>(s.cols);
        triple[0] += 2, triple[1] += 4, triple[2] = here ? triple[2] : 0;
      }
    }
  }
}

constexpr float gradient_scale = 0.125F;

/// Gradient that a CrossEntropy row computes beside the loss: of the logits, or of the SoftCap's
/// inputs that made them.
struct GradientOf {
  const char* name = "";  ///< its operand's; empty where it is not computed
  float softcap = 0;
  bool narrow = false;  ///< logits have its type

  bool computed() const { return *name != 0; }
  /// d capped / d uncapped of the input that became x.
  double slope(double x) const {
    return softcap == 0 ? 1 : 1 - std::pow(x / static_cast<double>(softcap), 2);
  }
};

constexpr GradientOf of_logits{"dlogits"}, uncapped{"duncapped", logit_cap};
constexpr GradientOf of_narrow{"dlogits", 0, true}, narrow_uncapped{"duncapped", logit_cap, true};

/// Sets loss and gradient of row i, of a shard that begins at `first`, from the statistics of all
/// shards. of_sum: the rounding errors of the sum's logarithm are relative to it.
void set_cross_entropy(Expected& e, const Setting& s, int64_t i, const Statistics& row,
                       double of_sum, int64_t first, const GradientOf& gradient) {
  const auto label = static_cast<int64_t>(at(e["labels"], i));
  const bool ignored = label == CrossEntropy::ignored_label;
  e.set("loss", i, ignored ? 0 : std::log(row.sum) + row.largest - row.chosen,
        ignored ? 0 : 1 + of_sum + std::abs(row.largest) + std::abs(row.chosen));
  for (int64_t j = 0; gradient.computed() && j < s.cols; ++j) {
    const double x = at(e["logits"], i * s.cols + j), argument = x - row.largest;
    const double p = std::exp(argument) / row.sum, hit = label - first == j ? 1 : 0;
    const double factor = ignored ? 0 : static_cast<double>(gradient_scale);
    e.set(gradient.name, i * s.cols + j, factor * (p - hit) * gradient.slope(x),
          factor * (p * (1 + row.reach + std::abs(argument)) + hit));  // 1 − (x / cap)² cancels
  }
}

void cross_entropy_reference(Expected& e, const Setting& s, const Vocabulary& vocabulary,
                             const GradientOf& gradient) {
  for (int64_t i = 0; i < s.rows; ++i) {
    const auto statistic = [&](int64_t shard, int64_t k) {
      return at(e["statistics"], 3 * (shard * s.rows + i) + k);
    };
    Statistics all;
    for (int64_t k = 0; k < vocabulary.shards; ++k)
      all.largest = std::max(all.largest, statistic(k, 0));
    for (int64_t k = 0; k < vocabulary.shards; ++k) {
      all.sum += statistic(k, 1) * std::exp(statistic(k, 0) - all.largest);
      all.chosen += statistic(k, 2);
    }
    set_cross_entropy(e, s, i, all, std::abs(std::log(all.sum)), vocabulary.first, gradient);
  }
}

Case cross_entropy(const Setting& s, const Vocabulary& vocabulary, const GradientOf& gradient) {
  const DType a = s.wide();
  Case c;
  c.operands = {logits_operand(s, gradient.narrow),
                labels(s, vocabulary),
                {"statistics", a, {vocabulary.shards, s.rows, 3}, Role::input, Draw::positive},
                {"loss", a, {s.rows}, Role::output}};
  if (gradient.computed()) {
    c.operands.push_back({gradient.name, s.type, s.shape(), Role::output});
    if (s.type == a || gradient.narrow) c.aliases = {{gradient.name, "logits"}};
  }
  c.bind = [=](const Views& v) {
    return CrossEntropy{v["logits"],      v["labels"],      v["statistics"], v["loss"],
                        v[gradient.name], vocabulary.first, gradient_scale,  gradient.softcap};
  };
  c.prepare = [=](Values& v) {
    prepare_logits(v, s, gradient.narrow);
    prepare_cross_entropy(v, s, vocabulary);
  };
  c.cotangents = {{"loss", static_cast<double>(gradient_scale)}};
  c.roundings = 24;  // two exponentials, a logarithm and the products around them
  c.reference = [=](Expected& e) { cross_entropy_reference(e, s, vocabulary, gradient); };
  return c;
}

/// The operation computes the statistics on the way.
Case cross_entropy_at_once(const Setting& s, const GradientOf& gradient) {
  Case c = cross_entropy(s, {}, gradient);
  std::erase_if(c.operands, [](const Operand& o) { return o.name == "statistics"; });
  c.prepare = [=](Values& v) {
    prepare_labels(v, s, {});
    prepare_logits(v, s, gradient.narrow);
  };
  c.roundings += static_cast<double>(s.cols) + 8;  // a sum of exponentials
  c.reference = [=](Expected& e) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const Statistics row(e, s, {}, i);
      set_cross_entropy(e, s, i, row, row.reach, 0, gradient);
    }
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<Embedding>() {
  return {{"embedding", with(embedding, 1.0F), {}, {0, 120}},
          {"embedding/scaled", with(embedding, 7.3F), {}, {0, 120}}};
}

template <>
std::vector<Row> rows_of<EmbeddingBackward>() {
  return {{"embedding-backward", with(embedding_backward, 1.0F, false), {"embedding"}, {0, 264}},
          {"embedding-backward/scaled",
           with(embedding_backward, 7.3F, false),
           {"embedding/scaled"},
           {0, 264}},
          {"embedding-backward/narrow", with(embedding_backward, 1.0F, true), {}, {0, 168}}};
}

template <>
std::vector<Row> rows_of<CrossEntropyStatistics>() {
  const auto statistics = [](int64_t shards, bool second, bool narrow = false) {
    return [=](const Setting& s) {
      return cross_entropy_statistics(s, {shards, second ? s.cols : 0}, narrow);
    };
  };
  return {{"cross-entropy-statistics", statistics(1, false), {}, {0, 192}},
          {"cross-entropy-statistics/second-shard", statistics(2, true), {}, {0, 192}},
          {"cross-entropy-statistics/narrow", statistics(2, true, true), {}, {0, 144}}};
}

template <>
std::vector<Row> rows_of<CrossEntropy>() {
  const auto loss = [](int64_t shards, const GradientOf& gradient) {  // of the last shard
    return [=](const Setting& s) {
      return cross_entropy(s, {shards, (shards - 1) * s.cols}, gradient);
    };
  };
  const std::vector<std::string> whole = {"cross-entropy-statistics", "cross-entropy"};
  const std::vector<std::string> capped = {"soft-cap/logits", "cross-entropy-statistics",
                                           "cross-entropy"};
  return {{"cross-entropy", loss(1, of_logits), whole, {0, 264}},
          {"cross-entropy/two-shards", loss(2, of_logits), {}, {0, 336}},
          {"cross-entropy/loss-only", loss(2, {}), {}, {0, 192}},
          {"cross-entropy/softcap", loss(1, uncapped), capped, {0, 264}},
          {"cross-entropy/narrow", loss(2, of_narrow), {}, {0, 288}},
          {"cross-entropy/at-once", with(cross_entropy_at_once, of_narrow), whole, {0, 144}},
          {"cross-entropy/at-once-softcap",
           with(cross_entropy_at_once, narrow_uncapped),
           capped,
           {0, 144}},
          {"cross-entropy/at-once-wide", with(cross_entropy_at_once, of_logits), whole, {0, 192}}};
}

}  // namespace frugal::kernels::table
