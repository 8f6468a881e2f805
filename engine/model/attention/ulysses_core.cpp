#include "engine/model/attention/ulysses_core.h"

#include "engine/model/converted.h"

namespace frugal {
namespace {

/// A part for each rank that shares the sequence: heads of this rank's tokens, or tokens of this
/// rank's heads.
Shape in_parts(const Rank& rank, int64_t columns) {
  const RunConfig& c = rank.config;
  return {c.context_parallel, c.group_sequence() * c.micro_batch, columns};
}

Tensor exchanged(Rank& rank, Tensor parts, const Shape& shape) {
  Tensor arriving = rank.allocate(parts.type(), shape, Kind::communication);
  rank.groups.context.all_to_all(parts, arriving).wait();
  parts.release();
  return arriving;
}
/// [c, s/c · b, columns] → [s, b, columns]: parts of the sequence arrive in its order.
Tensor by_heads(Rank& rank, Tensor parts) {
  const RunConfig& c = rank.config;
  const int64_t columns = parts.view().cols();
  return exchanged(rank, std::move(parts), {c.model.sequence, c.micro_batch, columns});
}
/// [s, b, columns] → [c, s/c · b, columns].
Tensor by_tokens(Rank& rank, Tensor x) {
  const int64_t columns = x.view().cols();
  return exchanged(rank, std::move(x), in_parts(rank, columns));
}

Tensor allocate_for_tokens(Rank& rank, int64_t columns) {
  const RunConfig& c = rank.config;
  return rank.allocate({c.group_sequence(), c.micro_batch, columns});
}

}  // namespace

UlyssesCore::UlyssesCore(int layer, const RunConfig& config)
    : AttentionCore(layer, HeadViews(config.model)),
      division_(config),
      inner_(layer, division_.own()) {}

Tensor UlyssesCore::forward(Rank& rank, Tensor qkv, Saved& saved) const {
  return context_by_tokens(rank, inner_.forward(rank, qkv_by_heads(rank, std::move(qkv)), saved));
}

Tensor UlyssesCore::backward(Rank& rank, Tensor dcontext, Tensor context, Saved saved) const {
  Tensor all_context = context_by_heads(rank, std::move(context));
  Tensor all_dcontext = context_by_heads(rank, std::move(dcontext));
  Tensor dqkv =
      inner_.backward(rank, std::move(all_dcontext), std::move(all_context), std::move(saved));
  return gradient_by_tokens(rank, std::move(dqkv));
}

Tensor UlyssesCore::qkv_by_heads(Rank& rank, Tensor qkv) const {
  Tensor parts = rank.allocate(in_parts(rank, division_.columns()), Kind::communication);
  const auto [all, divided] = division_.of_one(qkv, parts);
  rank.run(Copy{all, divided});
  for (const auto& shared : division_.of_several(qkv, parts))
    rank.run(Copy{shared.all, shared.divided});
  qkv.release();
  return by_heads(rank, std::move(parts));
}

Tensor UlyssesCore::context_by_heads(Rank& rank, Tensor context) const {
  Tensor parts =
      rank.allocate(in_parts(rank, context.view().cols() / division_.ranks()), Kind::communication);
  rank.run(Copy{division_.evenly(context), parts});
  context.release();
  return by_heads(rank, std::move(parts));
}

Tensor UlyssesCore::context_by_tokens(Rank& rank, Tensor context) const {
  const Tensor parts = by_tokens(rank, std::move(context));
  Tensor all = allocate_for_tokens(rank, parts.view().cols() * division_.ranks());
  rank.run(Copy{parts, division_.evenly(all)});
  return all;
}

Tensor UlyssesCore::gradient_by_tokens(Rank& rank, Tensor dqkv) const {
  const Tensor parts = by_tokens(rank, std::move(dqkv));
  Tensor all = allocate_for_tokens(rank, division_.all_columns());
  const auto [own, divided] = division_.of_one(all, parts);
  rank.run(Copy{divided, own});
  const std::vector<HeadDivision::Pair> several = division_.of_several(all, parts);
  if (several.empty()) return all;
  const View& to = several.front().all;
  const Tensor sum = rank.allocate(accumulation_type(to.type), to.shape);
  for (size_t i = 0; i < several.size(); ++i) rank.run(Copy{several[i].divided, sum, i > 0});
  rank.run(Copy{converted(rank, sum, to.type), to});
  return all;
}

}  // namespace frugal
