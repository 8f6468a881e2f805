#pragma once
#include <optional>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Layer norm or root mean square norm over the hidden size, as the model has it, outside the
/// tensor-parallel regions.
class Norm {
 public:
  struct Saved {
    Tensor input;  // [s/t, b, h]
    Tensor mean,
        deviation;  // [s/t · b] each: small, counted as statistics; no mean without centring
  };

  Norm(const RankAt& at, const std::string& name);

  /// [s/t, b, h] → the same shape.
  Tensor forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  /// Norm'(dy), plus `residual` where it is not empty.
  Tensor backward(const Pass& pass, const Tensor& dy, const Tensor& residual, Saved saved) const;

  ParameterList parameters();

 private:
  Parameter gamma_;
  std::optional<Parameter> beta_;  // of layer norm
  float epsilon_, offset_;
};

}  // namespace frugal::engine
