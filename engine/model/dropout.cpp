#include "engine/model/dropout.h"

#include "engine/model/parallel.h"

namespace frugal::engine::randomness {
namespace {

Dropout dropout(const Pass& pass, Site site, int layer, GlobalIndex index) {
  const auto sites = static_cast<uint32_t>(layer + 1) * 4U + static_cast<uint32_t>(site);
  const auto p = pass.training ? static_cast<float>(pass.rank.config.model.dropout) : 0.0F;
  return {p, {pass.rank.config.seed, sites, pass.draw}, index};
}

}  // namespace

Dropout of_hidden(const Pass& pass, Site site, int layer) {
  const RunConfig& c = pass.rank.config;
  const int shard = c.sequence_parallel ? pass.rank.tensor_group.rank() : 0;
  const int64_t size = parallel::local_sequence(pass.rank) * c.micro_batch * c.model.hidden;
  return dropout(pass, site, layer, {.offset = shard * size});
}

Dropout of_attention(const Pass& pass, int layer) {
  const RunConfig& c = pass.rank.config;
  const int64_t head = c.model.sequence * c.model.sequence;
  const int64_t local = c.model.heads / c.tensor_parallel * head;
  return dropout(pass, Site::attention_probabilities, layer,
                 {.offset = pass.rank.tensor_group.rank() * local,
                  .run = local,
                  .stride = c.model.heads * head});
}

}  // namespace frugal::engine::randomness

namespace frugal::engine {
namespace {

View one_row(const View& bias) { return bias.reshaped({1, bias.size()}); }
View matrix(const View& x) { return x.empty() ? View() : x.matrix(); }

}  // namespace

Tensor mask_for(const Pass& pass, const Shape& shape, const Dropout& dropout) {
  if (!pass.rank.config.keeps_masks() || !dropout.active()) return {};
  return pass.allocate(DType::u8, shape);
}

void add_dropped(const Pass& pass, const View& x, const Parameter* bias, const View& residual,
                 const View& mask, const View& y, const Dropout& dropout) {
  pass.run(BiasDropoutAdd{.x = x.matrix(),
                          .bias = bias == nullptr ? View() : one_row(bias->view()),
                          .residual = matrix(residual),
                          .y = y.matrix(),
                          .mask = matrix(mask),
                          .dropout = dropout});
}

Tensor undo_dropped(const Pass& pass, const Tensor& dy, const View& mask, const Parameter* bias,
                    const Dropout& dropout) {
  if (bias == nullptr && !dropout.active()) return dy;
  Tensor dx = dropout.active() ? pass.allocate(dy.shape()) : dy;  // the same elements
  pass.run(BiasDropoutAddBackward{.dy = dy.view().matrix(),
                                  .mask = matrix(mask),
                                  .dx = dx.view().matrix(),
                                  .dbias = bias == nullptr ? View() : one_row(bias->grad(pass)),
                                  .dropout = dropout});
  return dx;
}

}  // namespace frugal::engine
