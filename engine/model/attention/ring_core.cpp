#include <algorithm>

#include "engine/model/attention/fused_core.h"
#include "engine/model/parallel.h"

namespace frugal::engine {

/// Ring attention (Liu et al. 2023, arXiv:2310.01889): each of the r ranks that share a sequence
/// keeps the queries of its part, and keys and values travel around a ring. While a rank computes
/// with one part's, it sends these on and receives the next: 2 · groups · d/t · s/r · b elements in
/// each of r − 1 steps. In backward the gradients of keys and values travel with them in
/// accumulation type, and one step further, home.
///
/// What a causal rank computes follows from the positions that it and the others have
/// (Positions):
///
/// - Contiguous parts, as the paper has them. A rank computes half of its own part, and all parts
///   before it. So the last rank computes (2r − 1)/r of the mean, and the others wait for it.
/// - An early and a late piece, ContextKind::zigzag. Of a rank before it all queries see the early
///   half of the keys, of one behind it the late half of the queries sees all keys. So in every
///   step after the first each rank computes half of a block.
///
/// The r may each be one of several that divide heads (UlyssesCore), each with a ring for its own.
///
/// A rank that stands for all is the last one (engine/cluster/lone.cpp).
///
/// Keeps qkv and the logarithmic sums over all columns.
class RingCore final : public FusedCore {
 public:
  using FusedCore::FusedCore;

  /// The scores of a block that a rank's queries see, a rectangle: of the queries from row
  /// `first_query` on with the first `keys` keys. The others are hidden.
  struct Seen {
    int64_t first_query = 0, keys = 0;
    bool any() const { return keys > 0; }
  };
  /// Queries and keys of the part that is there after so many steps.
  static Seen seen(const Rank& rank, int step);

  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// Keys and values of a part of the sequence, [s/r, b, groups · 2 · d].
  Tensor allocate_block(const Pass& pass, const View& qkv, DType type) const;
  Tensor own_block(const Pass& pass, const View& qkv) const;
  HeadViews block_views() const { return {0, views_.head_size()}; }

  /// Attention of the queries of `qkv`, rows of a rank's, with the first `keys` keys and values
  /// that have come in this step, which all of them see: in the first the rank's own, then a
  /// block's.
  FusedAttention operation(const Pass& pass, int step, int64_t keys, const View& qkv,
                           const View& block, const View& context, const View& log_sum_exp) const;
  /// Makes the first step's context [s/r, b, groups · G · d] in accumulation type.
  Tensor begin(const Pass& pass, const View& qkv, const View& log_sum_exp) const;
  /// Adds what is seen of a later step's block.
  void add(const Pass& pass, int step, const Seen& seen, const View& qkv, const View& block,
           const View& context, const View& log_sum_exp) const;
  /// Computes the gradients of the queries, keys and values that are seen in this step, in the same
  /// rows of `part` [s/r, b, groups · (G + 2) · d]. late [b · heads, s/2r]: the logarithmic sums of
  /// the late piece's queries, where there are two.
  void differentiate(const Pass& pass, int step, const Seen& seen, const Saved& saved,
                     const View& late, const View& block, const View& context, const View& dcontext,
                     const View& part) const;
};

namespace {

/// A tensor of each rank that goes around the ring.
class Travelling {
 public:
  explicit Travelling(Tensor own) : here_(std::move(own)) {}

  /// The tensor that has come last.
  const Tensor& here() const { return here_; }
  /// Sends it on, beside what is computed until arrive().
  void leave(const Pass& pass) {
    next_ = pass.allocate(here_.type(), here_.shape(), Kind::communication);
    pending_ = pass.rank.groups.ring.shift(here_, next_);
  }
  /// Replaces what was sent on by what the rank before has sent.
  void arrive(const Pass& pass) {
    pass.wait(pending_);
    here_ = std::move(next_);
  }

 private:
  Tensor here_, next_;
  Pending pending_;  // last, so that it ends before the memory goes
};

/// Rows of [s/r, …], from this one to the last; and the first of them.
View from_row(const View& x, int64_t row) { return x.sliced(0, row, x.shape[0] - row); }
View first_rows(const View& x, int64_t count) { return x.sliced(0, 0, count); }

/// Sums of the late piece in log_sum_exp [b · heads, s/r], next to each other as attention's
/// backward operation reads them. The last rank, which stands for all, needs none and holds as
/// much.
Tensor late_sums(const Pass& pass, const View& log_sum_exp) {
  if (!pass.rank.config.has_two_pieces()) return {};
  const int64_t count = pass.rank.config.ring_piece();
  const View some = log_sum_exp.sliced(1, count, count);
  Tensor copy = pass.allocate(log_sum_exp.type, some.shape, Kind::statistics);
  pass.run(Copy{some, copy});
  return copy;
}

/// Runs a step's operation. Of those with parts that are not its own the last rank of a causal ring
/// of contiguous parts computes all and the ranks on average half, which is what counts where it
/// stands for all. With an early and a late piece all ranks compute as much.
void run(const Pass& pass, int step, const Operation& operation) {
  pass.run(operation);
  const RunConfig& c = pass.rank.config;
  if (step > 0 && c.model.causal && !c.has_two_pieces() && !pass.rank.groups.ring.whole())
    pass.rank.flops.add(-cost_of(operation).flops / 2);
}

}  // namespace

Tensor RingCore::allocate_block(const Pass& pass, const View& qkv, DType type) const {
  const int64_t columns = qkv.cols() / (views_.heads_per_group() + 2) * 2;
  return pass.allocate(type, {qkv.shape[0], qkv.shape[1], columns}, Kind::communication);
}

Tensor RingCore::own_block(const Pass& pass, const View& qkv) const {
  Tensor block = allocate_block(pass, qkv, qkv.type);
  pass.run(Copy{views_.side_by_side_keys_and_values(qkv),
                block_views().side_by_side_keys_and_values(block)});
  return block;
}

RingCore::Seen RingCore::seen(const Rank& rank, int step) {
  const RunConfig& c = rank.config;
  if (!c.model.causal) return {0, c.ring_sequence()};
  const int here = rank.groups.ring.rank(), ranks = rank.groups.ring.size();
  const Positions own = Positions::of_ring_part(c, here);
  const Positions block = Positions::of_ring_part(c, (here - step + ranks) % ranks);
  Seen seen{c.ring_sequence(), 0};
  for (const Positions::Piece& queries : own)
    if (queries.first >= block.front().first)
      seen.first_query = std::min(seen.first_query, queries.row);
  for (const Positions::Piece& keys : block)
    if (keys.first <= own.back().first) seen.keys += keys.count;
  return seen;
}

FusedAttention RingCore::operation(const Pass& pass, int step, int64_t keys, const View& qkv,
                                   const View& block, const View& context,
                                   const View& log_sum_exp) const {
  FusedAttention attention = FusedCore::operation(pass, qkv, context, log_sum_exp);
  if (step == 0) return attention;
  attention.k = block_views().keys(first_rows(block, keys));
  attention.v = block_views().values(first_rows(block, keys));
  attention.causal = false;  // all of it comes before the queries, where that matters
  return attention;
}

Tensor RingCore::begin(const Pass& pass, const View& qkv, const View& log_sum_exp) const {
  const Tensor context = allocate_context(pass, qkv);
  run(pass, 0, operation(pass, 0, qkv.shape[0], qkv, {}, context, log_sum_exp));
  return pass.converted(context, accumulation_type(qkv.type));
}

void RingCore::add(const Pass& pass, int step, const Seen& seen, const View& qkv, const View& block,
                   const View& context, const View& log_sum_exp) const {
  const View queries = from_row(qkv, seen.first_query);
  const Tensor part = allocate_context(pass, queries), sums = allocate_log_sum_exp(pass, queries);
  run(pass, step, operation(pass, step, seen.keys, queries, block, part, sums));
  const HeadViews each(1, views_.head_size());
  pass.run(MergeAttention{.y = each.context(from_row(context, seen.first_query)),
                          .log_sum_exp = log_sum_exp.sliced(1, seen.first_query, queries.shape[0]),
                          .part = each.context(part),
                          .part_log_sum_exp = sums});
}

Tensor RingCore::forward(const Pass& pass, Saved& saved) const {
  const int last = pass.rank.groups.ring.size() - 1;
  const View qkv = kept_qkv(pass, saved);
  saved.log_sum_exp = allocate_log_sum_exp(pass, qkv);
  Travelling block(own_block(pass, qkv));
  Tensor context;
  for (int step = 0; step <= last; ++step) {
    const Seen part = seen(pass.rank, step);
    if (step < last) block.leave(pass);
    if (step == 0)
      context = begin(pass, qkv, saved.log_sum_exp);
    else if (part.any())
      add(pass, step, part, qkv, block.here(), context, saved.log_sum_exp);
    if (step < last) block.arrive(pass);
  }
  context = pass.converted(context, qkv.type);
  pass.event(ModelEvent::fused_context_made, context, saved.extras);
  return context;
}

void RingCore::differentiate(const Pass& pass, int step, const Seen& seen, const Saved& saved,
                             const View& late, const View& block, const View& context,
                             const View& dcontext, const View& part) const {
  const View queries = from_row(part, seen.first_query), keys = first_rows(part, seen.keys);
  run(pass, step,
      FusedAttentionBackward{
          .forward = operation(pass, step, seen.keys, from_row(saved.qkv, seen.first_query), block,
                               from_row(context, seen.first_query),
                               seen.first_query == 0 ? saved.log_sum_exp.view() : late),
          .dy = views_.context(from_row(dcontext, seen.first_query)),
          .dq = views_.queries(queries),
          .dk = views_.keys(keys),
          .dv = views_.values(keys)});
}

Tensor RingCore::backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const {
  const int last = pass.rank.groups.ring.size() - 1;
  const View qkv = saved.qkv;
  const DType wide = accumulation_type(qkv.type);
  Tensor part = pass.allocate(qkv.shape);
  const Tensor sum = pass.allocate(wide, qkv.shape), late = late_sums(pass, saved.log_sum_exp);
  Travelling block(own_block(pass, qkv)), gradient(allocate_block(pass, qkv, wide));
  const auto of_block = [this](const View& x) {
    return block_views().side_by_side_keys_and_values(x);
  };
  for (int step = 0; step <= last; ++step) {
    if (step < last) block.leave(pass);
    const Seen some = seen(pass.rank, step);
    if (some.any())
      differentiate(pass, step, some, saved, late, block.here(), context, dcontext, part);
    if (step > 0) gradient.arrive(pass);
    if (some.any()) {
      const auto queries = [&](const View& x) {
        return views_.side_by_side_queries(from_row(x, some.first_query));
      };
      const View keys = views_.side_by_side_keys_and_values(first_rows(part, some.keys));
      pass.run(Copy{queries(part), queries(sum), step > 0});
      pass.run(Copy{keys, of_block(first_rows(gradient.here(), some.keys)), step > 0});
    }
    gradient.leave(pass);
    if (step < last) block.arrive(pass);
  }
  part.release();
  gradient.arrive(pass);
  pass.run(Copy{of_block(gradient.here()), views_.side_by_side_keys_and_values(sum)});
  return pass.converted(sum, qkv.type);
}

std::unique_ptr<const AttentionCore> make_ring_core(int layer, const HeadViews& views) {
  return std::make_unique<RingCore>(layer, views);
}

}  // namespace frugal::engine
