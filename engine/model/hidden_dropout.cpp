#include "engine/model/hidden_dropout.h"

#include "engine/model/saved.h"

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
