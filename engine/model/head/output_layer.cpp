#include "engine/model/head/output_layer.h"

#include "engine/model/embedding.h"
#include "engine/model/head/head_parts.h"
#include "engine/model/head/token_statistics.h"
#include "engine/model/linear.h"
#include "engine/model/saved.h"

namespace frugal::engine::output_layer {
namespace {

bool in_parts(const RunConfig& c) { return c.head_mini_sequences() > 1 || c.head_tiles > 1; }

DType product_type(const RunConfig& config) {
  return config.program.head.narrow_product ? config.type : logits_type(config);
}

float softcap_of(const Rank& rank) { return static_cast<float>(rank.config.model.logit_softcap); }

Tensor statistics_of(const Pass& pass, const Tensor& logits, const Tensor& labels) {
  const int64_t rows = logits.view().rows();
  const DType wide = accumulation_type(pass.rank.config.type);
  const Tensor local = pass.allocate(wide, {1, rows, 3}, Kind::statistics);
  pass.run(CrossEntropyStatistics{logits.view().matrix(), labels.view().flat(),
                                  local.view().reshaped({rows, 3}), first_token(pass.rank)});
  return gathered(pass, local);
}

/// Computes the logits of all tokens.
void compute_logits(const Pass& pass, const Tensor& x, const Parameter& table, Saved& saved) {
  Extras extras;
  Tensor logits = local_linear(pass, x, table.view(), {}, product_type(pass.rank.config));
  if (softcap_of(pass.rank) > 0) {
    pass.run(SoftCap{logits, logits, softcap_of(pass.rank)});
    pass.event(ModelEvent::logits_capped, logits, saved.extras);
  }
  Tensor product = logits;
  pass.event(ModelEvent::logits_made, logits, extras);
  pass.event(ModelEvent::logits_converted, product, saved.extras);
  pass.event(ModelEvent::logits_returned, logits, saved.extras);
  pass.event(ModelEvent::loss_begins, logits, extras);
  saved.logits = keep(pass, logits);
}

}  // namespace

Tensor forward(const Pass& outer, const Parameter& table, const Tensor& x, const Tensor& labels,
               std::optional<float> scale, Saved& saved) {
  const Pass pass = outer.in(Part::head);
  const DType wide = accumulation_type(pass.rank.config.type);
  saved.input = keep(pass, x);
  saved.labels = labels;
  const Tensor all = parallel::enter(pass, saved.input).wait();
  if (in_parts(pass.rank.config)) {
    HeadParts::Result result = HeadParts(pass, table, scale).run(all, labels);
    saved.input.release();
    for (const Tensor& part : result.dinputs) saved.dinputs.push_back(keep(pass, part));
    if (!result.dinput.empty())
      saved.dinput = keep(pass, parallel::leave(pass, result.dinput).wait());
    return result.losses;
  }
  compute_logits(pass, all, table, saved);
  if (pass.on_logits != nullptr)
    (*pass.on_logits)(pass, saved.logits.view().matrix(), 0, first_token(pass.rank));
  const bool at_once = in_one_pass(pass.rank, scale);
  if (!at_once) saved.statistics = statistics_of(pass, saved.logits, labels);

  Tensor losses = pass.allocate(wide, {saved.logits.view().rows()}, Kind::statistics);
  CrossEntropy loss{.logits = saved.logits.view().matrix(),
                    .labels = labels.view().flat(),
                    .statistics = saved.statistics,
                    .loss = losses,
                    .first = first_token(pass.rank)};
  if (at_once) {
    loss.gradient = loss.logits;
    loss.gradient_scale = *scale;
    loss.softcap = softcap_of(pass.rank);
  }
  pass.run(loss);
  pass.event(ModelEvent::loss_made, saved.statistics);
  return losses;
}

namespace {

Tensor logits_gradient(const Pass& pass, float scale, Saved& saved) {
  if (in_one_pass(pass.rank, scale)) return saved.logits;
  if (saved.statistics.empty()) saved.statistics = statistics_of(pass, saved.logits, saved.labels);
  Extras extras;
  pass.event(ModelEvent::loss_gradient_begins, saved.logits, extras);
  pass.event(ModelEvent::loss_gradient_converted, saved.logits, extras);
  const Tensor losses = pass.allocate(accumulation_type(pass.rank.config.type),
                                      {saved.logits.view().rows()}, Kind::statistics);
  // The gradient takes the place of the logits where it has their type.
  Tensor dlogits = saved.logits;
  if (dlogits.type() == pass.rank.config.type)
    pass.event(ModelEvent::loss_gradient_placed, dlogits);
  else
    dlogits = pass.allocate(dlogits.shape());
  pass.run(CrossEntropy{.logits = saved.logits.view().matrix(),
                        .labels = saved.labels.view().flat(),
                        .statistics = saved.statistics,
                        .loss = losses,
                        .gradient = dlogits.view().matrix(),
                        .first = first_token(pass.rank),
                        .gradient_scale = scale,
                        .softcap = softcap_of(pass.rank)});
  return dlogits;
}

/// Each part in a tensor of the whole length, which is zero elsewhere, and their sum once more.
Tensor sum_of_parts(const Pass& pass, std::vector<Tensor> parts) {
  Shape shape = parts.front().shape();
  shape.extent[0] = 0;
  for (const Tensor& part : parts) shape.extent[0] += part.shape()[0];
  Tensor sum;
  int64_t end = shape[0];
  for (; !parts.empty(); parts.pop_back()) {
    const int64_t count = parts.back().shape()[0];
    end -= count;
    const Tensor whole = pass.allocate(shape);
    pass.run(Fill{whole, 0});
    pass.run(
        Copy{parts.back().view().matrix(), MiniSequence{end, count}.of(whole).view().matrix()});
    if (sum.empty())
      sum = whole;
    else
      pass.run(BiasDropoutAdd{.x = sum.view().matrix(),
                              .residual = whole.view().matrix(),
                              .y = sum.view().matrix(),
                              .dropout = {}});
  }
  return pass.copied(sum);
}

}  // namespace

Tensor backward(const Pass& outer, const Parameter& table, float scale, Saved saved) {
  const Pass pass = outer.in(Part::head);
  if (!saved.dinputs.empty())
    return parallel::leave(pass, sum_of_parts(pass, std::move(saved.dinputs))).wait();
  if (in_parts(pass.rank.config)) return saved.dinput;
  const Tensor dlogits = logits_gradient(pass, scale, saved);
  saved.logits.release();
  return column_parallel_backward(pass, dlogits, saved.input, table, nullptr);
}

}  // namespace frugal::engine::output_layer
