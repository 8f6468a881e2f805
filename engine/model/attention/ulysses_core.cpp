#include <algorithm>

#include "engine/model/attention/attention_core.h"

namespace frugal::engine {

/// Division of a tensor-parallel rank's heads among u ranks (DeepSpeed-Ulysses, arXiv:2309.14509,
/// section 3.1): rank i has the a/(t·u) heads of queries from number i · a/(t·u) on, with the heads
/// of keys and values that these use. Where there are fewer of the latter than ranks (grouped
/// queries), several ranks have the same one.
///
/// Columns are exchanged as [u, s/c · b, columns()], what each rank has one after the other.
class HeadDivision {
 public:
  explicit HeadDivision(const RunConfig& config);

  /// The heads of one rank.
  HeadViews own() const { return {queries_ / groups_of_rank_, d_}; }
  int64_t ranks() const { return ranks_; }
  /// Columns of queries, keys and values together, a rank's and all ranks'.
  int64_t columns() const { return (queries_ + 2 * groups_of_rank_) * d_; }
  int64_t all_columns() const { return (queries_ * ranks_ + 2 * groups_) * d_; }

  /// Views of the same elements in a tensor of all heads, and in one that is divided.
  struct Pair {
    View all, divided;
  };
  /// Columns of qkv [s/c, b, groups · (G + 2) · d] that one rank alone has: all, or where several
  /// have the same keys and values, the queries.
  Pair of_one(const View& qkv, const View& divided) const;
  /// Keys and values that several ranks have, [groups, s/c · b, 2d] for each of them; otherwise
  /// none.
  std::vector<Pair> of_several(const View& qkv, const View& divided) const;
  /// x [s/c, b, n] as [u, s/c · b, n/u]: consecutive columns for each rank.
  View evenly(const View& x) const;

 private:
  int64_t ranks_, d_;
  int64_t groups_;          ///< of all heads
  int64_t groups_of_rank_;  ///< of one rank
  int64_t queries_;         ///< heads of queries of one rank
};

/// DeepSpeed-Ulysses (arXiv:2309.14509, section 3.1): u of the c ranks that share a sequence
/// exchange their parts of it for parts of the heads, compute these over all that they have of it
/// together, and exchange the results back. An all-to-all each way, of what the rank sends:
/// (a + 2·groups) · d/t · s/c · b elements there, a · d/t · s/c · b back.
///
/// What computes the heads is an attention core of its own. With u = c there is the whole sequence;
/// otherwise s/r = u · s/c of it, and the core is a ring's (Fang and Zhao 2024, "USP",
/// arXiv:2405.07719), where each of the ranks passes on keys and values of its own heads.
///
/// Keeps what that core keeps of the exchanged qkv. The context of the exchanged heads, which
/// backward needs, is not kept beside the rank's own one: that is exchanged again, a · d/t · s/c ·
/// b elements more, because as much memory would be kept for every layer.
class UlyssesCore final : public AttentionCore {
 public:
  /// `inner` computes division.own().
  UlyssesCore(int layer, const HeadDivision& division, std::unique_ptr<const AttentionCore> inner)
      : AttentionCore(layer, division.own()), division_(division), inner_(std::move(inner)) {}

  Tensor arranged(const Pass& pass, Tensor qkv) const override;
  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// All heads of a part of the sequence → the rank's heads of u of them, and back.
  Tensor context_by_heads(const Pass& pass, Tensor context) const;
  Tensor context_by_tokens(const Pass& pass, Tensor context) const;
  Tensor gradient_by_tokens(const Pass& pass, Tensor dqkv) const;

  HeadDivision division_;
  std::unique_ptr<const AttentionCore> inner_;  // of the rank's heads
};

namespace {

/// A part for each rank that divides heads: those of this rank's tokens, or tokens of this rank's
/// heads.
Shape in_parts(const Rank& rank, int64_t columns) {
  const RunConfig& c = rank.config;
  return {c.head_ranks(), c.group_sequence() * c.micro_batch, columns};
}

Tensor exchanged(const Pass& pass, Tensor parts, const Shape& shape) {
  Tensor arriving = pass.allocate(parts.type(), shape, Kind::communication);
  Pending exchange = pass.rank.groups.heads.all_to_all(parts, arriving);
  pass.wait(exchange);
  parts.release();
  return arriving;
}
/// [u, s/c · b, columns] → [s/r, b, columns]: parts of the sequence arrive in its order.
Tensor by_heads(const Pass& pass, Tensor parts) {
  const RunConfig& c = pass.rank.config;
  const int64_t columns = parts.view().cols();
  return exchanged(pass, std::move(parts), {c.ring_sequence(), c.micro_batch, columns});
}
/// [s/r, b, columns] → [u, s/c · b, columns].
Tensor by_tokens(const Pass& pass, Tensor x) {
  const int64_t columns = x.view().cols();
  return exchanged(pass, std::move(x), in_parts(pass.rank, columns));
}

Tensor allocate_for_tokens(const Pass& pass, int64_t columns) {
  const RunConfig& c = pass.rank.config;
  return pass.allocate({c.group_sequence(), c.micro_batch, columns});
}

}  // namespace

HeadDivision::HeadDivision(const RunConfig& config)
    : ranks_(config.head_ranks()),
      d_(config.model.head_size()),
      groups_(config.model.key_value_heads() / config.tensor_parallel),
      groups_of_rank_(std::max<int64_t>(groups_ / ranks_, 1)),
      queries_(config.model.heads / config.tensor_parallel / ranks_) {}

View HeadDivision::evenly(const View& x) const {
  const int64_t row = x.cols(), part = row / ranks_;
  return x.strided(0, {ranks_, x.rows(), part}, {part, row, 1, 0});
}

HeadDivision::Pair HeadDivision::of_one(const View& qkv, const View& divided) const {
  if (groups_ >= ranks_) return {evenly(qkv), divided};
  const int64_t sharing = ranks_ / groups_, rows = qkv.rows(), row = qkv.cols();
  const int64_t part = rows * columns();
  const Shape shape{groups_, sharing, rows, queries_ * d_};
  return {qkv.strided(0, shape, {row / groups_, queries_ * d_, row, 1}),
          divided.strided(0, shape, {sharing * part, part, columns(), 1})};
}

std::vector<HeadDivision::Pair> HeadDivision::of_several(const View& qkv,
                                                         const View& divided) const {
  if (groups_ >= ranks_) return {};
  const int64_t sharing = ranks_ / groups_, rows = qkv.rows(), row = qkv.cols();
  const int64_t part = rows * columns();
  const Shape shape{groups_, rows, 2 * d_};
  const View all = qkv.strided(sharing * queries_ * d_, shape, {row / groups_, row, 1, 0});
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < sharing; ++i)
    pairs.push_back(
        {all, divided.strided(i * part + queries_ * d_, shape, {sharing * part, columns(), 1, 0})});
  return pairs;
}

Tensor UlyssesCore::forward(const Pass& pass, Saved& saved) const {
  return context_by_tokens(pass, inner_->forward(pass, saved));
}

Tensor UlyssesCore::backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const {
  Tensor all_context = context_by_heads(pass, std::move(context));
  Tensor all_dcontext = context_by_heads(pass, std::move(dcontext));
  Tensor dqkv =
      inner_->backward(pass, std::move(all_dcontext), std::move(all_context), std::move(saved));
  return gradient_by_tokens(pass, std::move(dqkv));
}

Tensor UlyssesCore::arranged(const Pass& pass, Tensor qkv) const {
  Tensor parts = pass.allocate(in_parts(pass.rank, division_.columns()), Kind::communication);
  const auto [all, divided] = division_.of_one(qkv, parts);
  pass.run(Copy{all, divided});
  for (const auto& shared : division_.of_several(qkv, parts))
    pass.run(Copy{shared.all, shared.divided});
  qkv.release();
  return inner_->arranged(pass, by_heads(pass, std::move(parts)));
}

Tensor UlyssesCore::context_by_heads(const Pass& pass, Tensor context) const {
  Tensor parts = pass.allocate(in_parts(pass.rank, context.view().cols() / division_.ranks()),
                               Kind::communication);
  pass.run(Copy{division_.evenly(context), parts});
  context.release();
  return by_heads(pass, std::move(parts));
}

Tensor UlyssesCore::context_by_tokens(const Pass& pass, Tensor context) const {
  const Tensor parts = by_tokens(pass, std::move(context));
  Tensor all = allocate_for_tokens(pass, parts.view().cols() * division_.ranks());
  pass.run(Copy{parts, division_.evenly(all)});
  return all;
}

Tensor UlyssesCore::gradient_by_tokens(const Pass& pass, Tensor dqkv) const {
  const Tensor parts = by_tokens(pass, std::move(dqkv));
  Tensor all = allocate_for_tokens(pass, division_.all_columns());
  const auto [own, divided] = division_.of_one(all, parts);
  pass.run(Copy{divided, own});
  const std::vector<HeadDivision::Pair> several = division_.of_several(all, parts);
  if (several.empty()) return all;
  const View& to = several.front().all;
  const Tensor sum = pass.allocate(accumulation_type(to.type), to.shape);
  for (size_t i = 0; i < several.size(); ++i) pass.run(Copy{several[i].divided, sum, i > 0});
  pass.run(Copy{pass.converted(sum, to.type), to});
  return all;
}

std::unique_ptr<const AttentionCore> make_ulysses_core(const RunConfig& config, int layer,
                                                       MakeCore inner) {
  const HeadDivision division(config);
  return std::make_unique<UlyssesCore>(layer, division, inner(config, layer, division.own()));
}

}  // namespace frugal::engine
