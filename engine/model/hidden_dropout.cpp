#include "engine/model/hidden_dropout.h"

#include "engine/model/saved.h"

namespace frugal {
namespace {

View one_row(const View& bias) { return bias.reshaped({1, bias.size()}); }
View matrix(const View& x) { return x.empty() ? View() : x.matrix(); }

}  // namespace

Tensor mask_for(Rank& rank, const Shape& shape, const Dropout& dropout) {
  if (!rank.config.stored_masks || !dropout.active()) return {};
  return rank.allocate(DType::u8, shape);
}

void add_dropped(Rank& rank, const View& x, const Parameter* bias, const View& residual,
                 const View& mask, const View& y, const Dropout& dropout) {
  rank.run(BiasDropoutAdd{.x = x.matrix(),
                          .bias = bias == nullptr ? View() : one_row(bias->view()),
                          .residual = matrix(residual),
                          .y = y.matrix(),
                          .mask = matrix(mask),
                          .dropout = dropout});
}

Tensor undo_dropped(Rank& rank, const Tensor& dy, const View& mask, const Parameter* bias,
                    const Dropout& dropout) {
  if (bias == nullptr && !dropout.active()) return dy;
  Tensor dx = rank.allocate(dy.shape());
  rank.run(BiasDropoutAddBackward{.dy = dy.view().matrix(),
                                  .mask = matrix(mask),
                                  .dx = dx.view().matrix(),
                                  .dbias = bias == nullptr ? View() : one_row(bias->grad(rank)),
                                  .dropout = dropout});
  return dx;
}

}  // namespace frugal
