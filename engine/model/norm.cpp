#include "engine/model/norm.h"

namespace frugal::engine {

Norm::Norm(const RankAt& at, const std::string& name)
    : gamma_(at, name + ".gamma", {at.rank.config.model.hidden}, Sharding::replicated,
             {.constant = 1 - at.rank.config.model.norm_offset()}),
      epsilon_(static_cast<float>(at.rank.config.model.norm_epsilon)),
      offset_(at.rank.config.model.norm_offset()) {
  gamma_.gradient_is_partial = at.rank.config.sequence_parallel;
  if (at.rank.config.model.norm == NormKind::rms) return;
  beta_.emplace(at, name + ".beta", Shape{at.rank.config.model.hidden}, Sharding::replicated,
                Initial{});
  beta_->gradient_is_partial = at.rank.config.sequence_parallel;
}

Tensor Norm::forward(const Pass& outer, const Tensor& x, Saved& saved, bool keeps_input) const {
  const Pass pass = outer.in(Part::norm);
  const auto statistic = [&] {
    return pass.allocate(accumulation_type(x.type()), {x.view().rows()}, Kind::statistics);
  };
  if (keeps_input) {
    saved.input = x;
    pass.event(ModelEvent::norm_read, saved.input, saved.extras);
    keep(pass, saved.input);
  }
  if (beta_) saved.mean = statistic();
  saved.deviation = statistic();
  return normalized(pass, x, saved);
}

Tensor Norm::again(const Pass& outer, const Saved& saved) const {
  const Pass pass = outer.in(Part::norm);
  return normalized(pass, pass.converted(saved.input, pass.rank.config.type), saved);
}

Tensor Norm::normalized(const Pass& pass, const Tensor& x, const Saved& saved) const {
  Tensor y = pass.allocate(x.shape());
  if (beta_)
    pass.run(LayerNorm{x, gamma_.view(), beta_->view(), y, saved.mean, saved.deviation, epsilon_});
  else
    pass.run(RmsNorm{x, gamma_.view(), y, saved.deviation, epsilon_, offset_});
  return y;
}

Tensor Norm::backward(const Pass& outer, Tensor dy, const Tensor& residual, Saved saved) const {
  const Pass pass = outer.in(Part::norm);
  pass.event(ModelEvent::norm_gradient_begins, dy, saved.extras, &saved.input);
  Tensor dx = pass.allocate(dy.shape());
  if (beta_)
    pass.run(LayerNormBackward{dy, saved.input, saved.mean, saved.deviation, gamma_.view(),
                               residual, dx, gamma_.grad(pass), beta_->grad(pass)});
  else
    pass.run(RmsNormBackward{dy, saved.input, saved.deviation, gamma_.view(), residual, dx,
                             gamma_.grad(pass), offset_});
  return dx;
}

}  // namespace frugal::engine
