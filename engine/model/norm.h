#pragma once
#include <optional>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Layer norm or root mean square norm over the hidden size, as the model has it, outside the
/// tensor-parallel regions.
class Norm {
 public:
  struct Saved {
    Tensor input;  // [s/t, b, h]; an imitated program's may have accumulation type; none where it
                   // is made again
    Tensor mean,
        deviation;  // [s/t · b] each: small, counted as statistics; no mean without centring
    Extras extras;  // [s/t, b, h] each

    /// Adds all but the statistics.
    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::residual, &input});
      for (Tensor* tensor : extras.tensors()) kept.push_back({LayerModule::norm, tensor});
    }
  };

  Norm(const RankAt& at, const std::string& name);

  /// [s/t, b, h] → the same shape. It keeps x, or without `keeps_input` its statistics alone.
  Tensor forward(const Pass& outer, const Tensor& x, Saved& saved, bool keeps_input = true) const;
  /// Forward's result, recomputed from what it has kept.
  Tensor again(const Pass& outer, const Saved& saved) const;
  /// Norm'(dy), plus `residual` where it is not empty.
  Tensor backward(const Pass& outer, Tensor dy, const Tensor& residual, Saved saved) const;

  ParameterList parameters() { return with_optional(gamma_, beta_); }

 private:
  /// Writes the statistics, too.
  Tensor normalized(const Pass& pass, const Tensor& x, const Saved& saved) const;

  Parameter gamma_;
  std::optional<Parameter> beta_;  // of layer norm
  float epsilon_, offset_;
};

}  // namespace frugal::engine
