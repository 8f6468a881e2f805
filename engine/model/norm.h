#pragma once
#include <optional>

#include "engine/model/parameter.h"
#include "engine/model/saved.h"

namespace frugal::engine {

/// Layer norm or root mean square norm over the hidden size, as the model has it, outside the
/// tensor-parallel regions.
class Norm {
 public:
  struct Saved {
    Tensor input;  // [s/t, b, h], of a program with float32 norms in accumulation type
    Tensor mean,
        deviation;  // [s/t · b] each: small, counted as statistics; no mean without centring
    Tensor normal;  // [s/t, b, h], before the gain; of a program with float32 norms alone

    /// Adds all but the statistics.
    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::residual, &input});
      kept.push_back({LayerModule::norm, &normal});
    }
  };

  Norm(const RankAt& at, const std::string& name);

  /// [s/t, b, h] → the same shape.
  Tensor forward(const Pass& outer, const Tensor& x, Saved& saved) const;
  /// What forward gave, of what it has kept.
  Tensor again(const Pass& outer, const Saved& saved) const;
  /// Norm'(dy), plus `residual` where it is not empty.
  Tensor backward(const Pass& outer, Tensor dy, const Tensor& residual, Saved saved) const;

  ParameterList parameters();

 private:
  /// Whether the program computes it so (Keeping::float32_norms).
  bool in_float32(const Pass& pass) const;
  /// Writes the statistics, too.
  Tensor normalized(const Pass& pass, const Tensor& x, const Saved& saved) const;
  /// x in accumulation type, and what it is before the gain.
  static Tensor made_wide(const Pass& pass, const Tensor& x, Tensor& normal);
  /// Its input as it was, after what the gradient's steps make. dy goes to other memory.
  static Tensor made_narrow(const Pass& pass, Tensor& dy, const Tensor& input, Tensor normal);

  Parameter gamma_;
  std::optional<Parameter> beta_;  // of layer norm
  float epsilon_, offset_;
};

}  // namespace frugal::engine
