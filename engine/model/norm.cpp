#include "engine/model/norm.h"

#include "engine/model/converted.h"
#include "engine/model/copied.h"
#include "engine/model/saved.h"

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

Tensor Norm::forward(const Pass& outer, const Tensor& x, Saved& saved) const {
  const Pass pass = outer.in(Part::norm);
  const auto statistic = [&] {
    return pass.allocate(accumulation_type(x.type()), {x.view().rows()}, Kind::statistics);
  };
  saved.input = keep(pass, in_float32(pass) ? made_wide(pass, x, saved.normal) : x);
  if (beta_) saved.mean = statistic();
  saved.deviation = statistic();
  return normalized(pass, x, saved);
}

Tensor Norm::again(const Pass& outer, const Saved& saved) const {
  const Pass pass = outer.in(Part::norm);
  return normalized(pass, converted(pass, saved.input, pass.rank.config.type), saved);
}

Tensor Norm::normalized(const Pass& pass, const Tensor& x, const Saved& saved) const {
  Tensor y = pass.allocate(x.shape());
  if (beta_)
    pass.run(LayerNorm{x, gamma_.view(), beta_->view(), y, saved.mean, saved.deviation, epsilon_});
  else
    pass.run(RmsNorm{x, gamma_.view(), y, saved.deviation, epsilon_, offset_});
  return y;
}

bool Norm::in_float32(const Pass& pass) const {
  return !beta_ && pass.rank.config.program.keeps.float32_norms;
}

Tensor Norm::made_wide(const Pass& pass, const Tensor& x, Tensor& normal) {
  Tensor wide = converted(pass, x, accumulation_type(x.type()));
  normal = keep(pass, copied(pass, copied(pass, wide), x.type()));
  return wide;
}

/// The products of PyTorch's autograd in their order: of the gain, and in float32 of the input with
/// the deviation and of its square. What arrives goes from one to the next, and is found in the
/// last of them; float32 loses nothing of it.
Tensor Norm::made_narrow(const Pass& pass, Tensor& dy, const Tensor& input, Tensor normal) {
  const DType narrow = dy.type(), wide = input.type();
  Tensor dgain = copied(pass, dy), dnormal = copied(pass, dy);
  dy.release();
  dgain.release();
  normal.release();
  Tensor dproduct = converted(pass, dnormal, wide);
  dnormal.release();
  Tensor dinput = copied(pass, dproduct), ddeviation = copied(pass, dproduct);
  dproduct.release();
  ddeviation.release();
  Tensor dsquare = copied(pass, input), power = copied(pass, input);
  Tensor twice = copied(pass, power), product = copied(pass, twice);
  for (Tensor* done : {&dsquare, &power, &twice, &product}) done->release();
  dy = converted(pass, dinput, narrow);
  dinput.release();
  return converted(pass, input, narrow);
}

Tensor Norm::backward(const Pass& outer, Tensor dy, const Tensor& residual, Saved saved) const {
  const Pass pass = outer.in(Part::norm);
  if (in_float32(pass)) saved.input = made_narrow(pass, dy, saved.input, std::move(saved.normal));
  Tensor dx = pass.allocate(dy.shape());
  if (beta_)
    pass.run(LayerNormBackward{dy, saved.input, saved.mean, saved.deviation, gamma_.view(),
                               residual, dx, gamma_.grad(pass), beta_->grad(pass)});
  else
    pass.run(RmsNormBackward{dy, saved.input, saved.deviation, gamma_.view(), residual, dx,
                             gamma_.grad(pass), offset_});
  return dx;
}

ParameterList Norm::parameters() {
  return beta_ ? ParameterList{&gamma_, &*beta_} : ParameterList{&gamma_};
}

}  // namespace frugal::engine
