#pragma once
#include "engine/model/attention/attention_core.h"

namespace frugal::engine {

/// Products, softmax and dropout as operations of their own (korthikanti2022, figure 3). Heads of
/// queries that share keys and values have a product each.
class SeparateCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  /// Recomputation runs all of it again, as the paper does, although the product with V is not
  /// needed a second time.
  Tensor forward(const Pass& pass, Saved& saved) const override;
  bool needs_context() const override { return false; }
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// Matrices of head i of each group, of [b · groups · G, s, s].
  View of_head(const View& all, int64_t i) const;
};

}  // namespace frugal::engine
