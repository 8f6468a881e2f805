#include "engine/model/head/output_layer.h"

#include "engine/model/embedding.h"
#include "engine/model/head/head_parts.h"
#include "engine/model/head/token_statistics.h"
#include "engine/model/linear.h"
#include "engine/model/saved.h"

namespace frugal::output_layer {
namespace {

bool in_parts(const RunConfig& c) { return c.head_mini_sequences() > 1 || c.head_tiles > 1; }

float softcap_of(const Rank& rank) { return static_cast<float>(rank.config.model.logit_softcap); }

Tensor statistics_of(Rank& rank, const Tensor& logits, const Tensor& labels) {
  const int64_t rows = logits.view().rows();
  const DType wide = accumulation_type(rank.config.type);
  const Tensor local = rank.allocate(wide, {1, rows, 3}, Kind::statistics);
  rank.run(CrossEntropyStatistics{logits.view().matrix(), labels.view().flat(),
                                  local.view().reshaped({rows, 3}), first_token(rank)});
  return gathered(rank, local);
}

}  // namespace

Tensor forward(Rank& rank, const Parameter& table, const Tensor& x, const Tensor& labels,
               std::optional<float> scale, Saved& saved) {
  const DType wide = accumulation_type(rank.config.type);
  saved.input = keep(x);
  saved.labels = labels;
  const Tensor all = parallel::enter(rank, saved.input).wait();
  if (in_parts(rank.config)) {
    HeadParts::Result result = HeadParts(rank, table, scale).run(all, labels);
    saved.input.release();
    if (scale) saved.dinput = keep(parallel::leave(rank, result.dinput).wait());
    return result.losses;
  }
  saved.logits = keep(local_linear(rank, all, table.view(), {}, logits_type(rank.config)));
  if (softcap_of(rank) > 0) rank.run(SoftCap{saved.logits, saved.logits, softcap_of(rank)});
  if (rank.on_logits) rank.on_logits(saved.logits.view().matrix(), 0, first_token(rank));
  const bool at_once = in_one_pass(rank, scale);
  if (!at_once) saved.statistics = statistics_of(rank, saved.logits, labels);

  Tensor losses = rank.allocate(wide, {saved.logits.view().rows()}, Kind::statistics);
  CrossEntropy loss{.logits = saved.logits.view().matrix(),
                    .labels = labels.view().flat(),
                    .statistics = saved.statistics,
                    .loss = losses,
                    .first = first_token(rank)};
  if (at_once) {
    loss.gradient = loss.logits;
    loss.gradient_scale = *scale;
    loss.softcap = softcap_of(rank);
  }
  rank.run(loss);
  return losses;
}

namespace {

Tensor logits_gradient(Rank& rank, float scale, const Saved& saved) {
  if (saved.statistics.empty()) return saved.logits;
  const Tensor losses = rank.allocate(accumulation_type(rank.config.type),
                                      {saved.logits.view().rows()}, Kind::statistics);
  // The gradient takes the place of the logits where it has their type.
  Tensor dlogits =
      saved.logits.type() == rank.config.type ? saved.logits : rank.allocate(saved.logits.shape());
  rank.run(CrossEntropy{.logits = saved.logits.view().matrix(),
                        .labels = saved.labels.view().flat(),
                        .statistics = saved.statistics,
                        .loss = losses,
                        .gradient = dlogits.view().matrix(),
                        .first = first_token(rank),
                        .gradient_scale = scale,
                        .softcap = softcap_of(rank)});
  return dlogits;
}

}  // namespace

Tensor backward(Rank& rank, const Parameter& table, float scale, Saved saved) {
  if (in_parts(rank.config)) return saved.dinput;
  const Tensor dlogits = logits_gradient(rank, scale, saved);
  saved.logits.release();
  return column_parallel_backward(rank, dlogits, saved.input, table, nullptr);
}

}  // namespace frugal::output_layer
