#include "engine/model/head.h"

#include "engine/model/linear.h"
#include "engine/model/saved.h"

namespace frugal {
namespace {

/// Every shard's statistics of every token: one collective, instead of one for the maximum, one
/// for the sum and one for the label's logit.
Tensor gathered_statistics(Rank& rank, const Tensor& logits, const Tensor& labels, int64_t first) {
  const int64_t rows = logits.view().rows();
  const int t = rank.tensor_group.size();
  Tensor local = rank.allocate(logits.type(), {rows, 3}, Kind::statistics);
  rank.run(CrossEntropyStatistics{logits.view().matrix(), labels.view().flat(), local, first});
  if (t == 1) return local.reshaped({1, rows, 3});
  Tensor all = rank.allocate(logits.type(), {t, rows, 3}, Kind::statistics);
  rank.tensor_group.all_gather(local, all).wait();
  return all;
}

}  // namespace

Tensor OutputHead::forward(Rank& rank, const Parameter& table, const Tensor& x,
                           const Tensor& labels, Saved& saved) const {
  const DType wide = accumulation_type(rank.config.type);
  saved.input = keep(norm_.forward(rank, x, saved.norm));
  saved.labels = labels;
  const Tensor all = parallel::enter(rank, saved.input).wait();
  saved.logits = keep(local_linear(rank, all, table.view(), {}, wide));
  if (rank.on_logits) rank.on_logits(saved.logits);
  saved.statistics = gathered_statistics(rank, saved.logits, labels, first_token(rank));

  Tensor losses = rank.allocate(wide, {saved.logits.view().rows()}, Kind::statistics);
  rank.run(CrossEntropy{.logits = saved.logits.view().matrix(),
                        .labels = labels.view().flat(),
                        .statistics = saved.statistics,
                        .loss = losses,
                        .first = first_token(rank)});
  return losses;
}

Tensor OutputHead::backward(Rank& rank, const Parameter& table, float scale, Saved saved) const {
  const Tensor losses =
      rank.allocate(saved.logits.type(), {saved.logits.view().rows()}, Kind::statistics);
  // The gradient takes the place of the logits where it has their type.
  Tensor dlogits =
      saved.logits.type() == rank.config.type ? saved.logits : rank.allocate(saved.logits.shape());
  rank.run(CrossEntropy{.logits = saved.logits.view().matrix(),
                        .labels = saved.labels.view().flat(),
                        .statistics = saved.statistics,
                        .loss = losses,
                        .gradient = dlogits.view().matrix(),
                        .first = first_token(rank),
                        .gradient_scale = scale});
  saved.logits.release();

  const Tensor dnormed = column_parallel_backward(rank, dlogits, saved.input, table, nullptr);
  dlogits.release();
  return norm_.backward(rank, dnormed, {}, std::move(saved.norm));
}

}  // namespace frugal
