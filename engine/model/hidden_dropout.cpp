#include "engine/model/hidden_dropout.h"

#include "engine/model/saved.h"

namespace frugal {
namespace {

View one_row(const View& bias) { return bias.reshaped({1, bias.size()}); }

}  // namespace

Tensor mask_for(Rank& rank, const Shape& shape, const Dropout& dropout) {
  if (!rank.config.stored_masks || !dropout.active()) return {};
  return rank.allocate(DType::u8, shape);
}

Tensor add_dropped(Rank& rank, const Tensor& x, const Parameter& bias, const Tensor& residual,
                   Tensor& mask, const Dropout& dropout) {
  mask = mask_for(rank, {x.view().rows(), x.view().cols()}, dropout);
  keep(mask);
  Tensor y = rank.allocate(x.shape());
  rank.run(BiasDropoutAdd{.x = x.view().matrix(),
                          .bias = one_row(bias.view()),
                          .residual = residual.view().matrix(),
                          .y = y.view().matrix(),
                          .mask = mask,
                          .dropout = dropout});
  return y;
}

Tensor undo_dropped(Rank& rank, const Tensor& dy, const Tensor& mask, const Parameter& bias,
                    const Dropout& dropout) {
  Tensor dx = rank.allocate(dy.shape());
  rank.run(BiasDropoutAddBackward{.dy = dy.view().matrix(),
                                  .mask = mask,
                                  .dx = dx.view().matrix(),
                                  .dbias = one_row(bias.grad()),
                                  .dropout = dropout});
  return dx;
}

}  // namespace frugal
