#include "engine/model/norm.h"

#include "engine/model/saved.h"

namespace frugal {

Norm::Norm(Rank& rank, const std::string& name)
    : gamma_(rank, name + ".gamma", {rank.config.model.hidden}, Sharding::replicated,
             {.constant = 1}),
      beta_(rank, name + ".beta", {rank.config.model.hidden}, Sharding::replicated, {}) {
  gamma_.gradient_is_partial = beta_.gradient_is_partial = rank.config.sequence_parallel;
}

Tensor Norm::forward(Rank& rank, const Tensor& x, Saved& saved) const {
  const DType statistic = accumulation_type(x.type());
  saved.input = keep(x);
  saved.mean = rank.allocate(statistic, {x.view().rows()}, Kind::statistics);
  saved.deviation = rank.allocate(statistic, {x.view().rows()}, Kind::statistics);
  Tensor y = rank.allocate(x.shape());
  rank.run(LayerNorm{x, gamma_.view(), beta_.view(), y, saved.mean, saved.deviation});
  return y;
}

Tensor Norm::backward(Rank& rank, const Tensor& dy, const Tensor& residual, Saved saved) const {
  Tensor dx = rank.allocate(dy.shape());
  rank.run(LayerNormBackward{dy, saved.input, saved.mean, saved.deviation, gamma_.view(), residual,
                             dx, gamma_.grad(), beta_.grad()});
  return dx;
}

}  // namespace frugal
