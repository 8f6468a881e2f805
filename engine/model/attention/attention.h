#pragma once
#include "engine/model/attention/attention_core.h"
#include "engine/model/linear.h"

namespace frugal::engine {

/// Rotated queries and keys, of models that have them.
class RotaryPositions {
 public:
  explicit RotaryPositions(const RankAt& at);

  /// Turns all queries and keys of qkv [s or s/c, b, groups · (G + 2) · d] in place, by their
  /// positions in the whole sequence; back where `inverse`. Nothing in a model with learned
  /// positions.
  void apply(const Pass& pass, const View& qkv, bool inverse) const;
  /// Turns keys alone.
  void apply_to_keys(const Pass& pass, const View& qkv) const;

 private:
  Tensor frequencies_;  // [d/2] in accumulation type; empty with learned positions
};

/// Self-attention, heads divided over the tensor-parallel group. It ends with projection, dropout
/// and the residual.
class Attention {
 public:
  struct Saved {
    Tensor input;               // [s/t, b, h]; none where the norm is made again
    AttentionCore::Saved core;  // queries and keys are rotated
    Tensor queries, values;     // where keys are made again, in place of the core's qkv:
                                // [s, b, a·d/t] and [s, b, groups·d/t]
    Tensor context;             // [s, b, a·d/t]; none where a core is made again that needs it
    Tensor mask;                // [s/t, b, h] u8, where masks are stored

    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::norm, &input});
      core.add_to(kept);
      for (Tensor* tensor : {&queries, &values}) kept.push_back({LayerModule::projection, tensor});
      kept.push_back({LayerModule::core_attention, &context});
      kept.push_back({LayerModule::residual, &mask});
    }
  };

  Attention(const RankAt& at, const std::string& name, int layer);

  /// residual + dropout(projection(attention(x))): x, residual and result [s/t, b, h]. The residual
  /// may be empty.
  Tensor forward(const Pass& outer, const Tensor& x, const Tensor& residual, Saved& saved) const;
  /// Forward's result, made again of the residual and of what forward has kept.
  Tensor output_again(const Pass& outer, const Tensor& residual, Saved& saved,
                      const Rematerialized& input) const;
  /// The gradient of x; that of the residual is dy itself. `input` gives x where it is not kept.
  Tensor backward(const Pass& outer, const Tensor& dy, Saved saved, const Rematerialized& input);

  ParameterList parameters() { return join({qkv_.parameters(), projection_.parameters()}); }

 private:
  /// Queries, keys and values as the core takes them.
  Tensor qkv_for_core(const Pass& pass, const Tensor& x) const;
  /// residual + dropout(projection(context)); keeps the mask in `saved` where it is stored.
  Tensor output(const Pass& pass, Tensor context, const Tensor& residual, Saved& saved) const;
  /// Keeps queries and values of the core's qkv, each apart.
  static void keep_without_keys(const Pass& pass, const Tensor& qkv, Saved& saved);
  /// The core's qkv, of those and of x.
  Tensor with_keys(const Pass& pass, const Tensor& x, Saved& saved) const;
  /// Makes again what the core needs and forward has not kept, once.
  void make_core_again(const Pass& pass, const Rematerialized& input, Saved& saved) const;

  int layer_;
  ColumnParallelLinear qkv_;
  RotaryPositions positions_;
  std::unique_ptr<const AttentionCore> core_;
  RowParallelLinear projection_;
};

}  // namespace frugal::engine
