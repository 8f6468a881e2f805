#include "engine/model/hidden_dropout.h"

#include "engine/model/saved.h"

namespace frugal {
namespace {

View as_rows(const View& x) { return x.reshaped({x.rows(), x.cols()}); }
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
  rank.run(BiasDropoutAdd{.x = as_rows(x),
                          .bias = one_row(bias.view()),
                          .residual = as_rows(residual),
                          .y = as_rows(y),
                          .mask = mask,
                          .dropout = dropout});
  return y;
}

Tensor undo_dropped(Rank& rank, const Tensor& dy, const Tensor& mask, const Parameter& bias,
                    const Dropout& dropout) {
  Tensor dx = rank.allocate(dy.shape());
  rank.run(BiasDropoutAddBackward{.dy = as_rows(dy),
                                  .mask = mask,
                                  .dx = as_rows(dx),
                                  .dbias = one_row(bias.grad()),
                                  .dropout = dropout});
  return dx;
}

}  // namespace frugal
