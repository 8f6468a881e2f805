#include "engine/model/attention/ulysses_core.h"

#include <algorithm>

namespace frugal::engine {
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

UlyssesCore::UlyssesCore(int layer, const HeadDivision& division,
                         std::unique_ptr<const AttentionCore> inner)
    : AttentionCore(layer, division.own()), division_(division), inner_(std::move(inner)) {}

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

}  // namespace frugal::engine
