#include "engine/model/norm.h"

#include "engine/model/saved.h"

namespace frugal {

Norm::Norm(Rank& rank, const std::string& name)
    : gamma_(rank, name + ".gamma", {rank.config.model.hidden}, Sharding::replicated,
             {.constant = 1 - rank.config.model.norm_offset()}),
      epsilon_(static_cast<float>(rank.config.model.norm_epsilon)),
      offset_(rank.config.model.norm_offset()) {
  gamma_.gradient_is_partial = rank.config.sequence_parallel;
  if (rank.config.model.norm == NormKind::rms) return;
  beta_.emplace(rank, name + ".beta", Shape{rank.config.model.hidden}, Sharding::replicated,
                Initial{});
  beta_->gradient_is_partial = rank.config.sequence_parallel;
}

Tensor Norm::forward(Rank& rank, const Tensor& x, Saved& saved) const {
  const auto statistic = [&] {
    return rank.allocate(accumulation_type(x.type()), {x.view().rows()}, Kind::statistics);
  };
  saved.input = keep(x);
  if (beta_) saved.mean = statistic();
  saved.deviation = statistic();
  Tensor y = rank.allocate(x.shape());
  if (beta_)
    rank.run(LayerNorm{x, gamma_.view(), beta_->view(), y, saved.mean, saved.deviation, epsilon_});
  else
    rank.run(RmsNorm{x, gamma_.view(), y, saved.deviation, epsilon_, offset_});
  return y;
}

Tensor Norm::backward(Rank& rank, const Tensor& dy, const Tensor& residual, Saved saved) const {
  Tensor dx = rank.allocate(dy.shape());
  if (beta_)
    rank.run(LayerNormBackward{dy, saved.input, saved.mean, saved.deviation, gamma_.view(),
                               residual, dx, gamma_.grad(rank), beta_->grad(rank)});
  else
    rank.run(RmsNormBackward{dy, saved.input, saved.deviation, gamma_.view(), residual, dx,
                             gamma_.grad(rank), offset_});
  return dx;
}

ParameterList Norm::parameters() {
  return beta_ ? ParameterList{&gamma_, &*beta_} : ParameterList{&gamma_};
}

}  // namespace frugal
