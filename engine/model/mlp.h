#pragma once
#include "engine/model/linear.h"

namespace frugal::engine {

/// h → I → h with GELU between (korthikanti2022, figure 4), or h → 2I → I → h with a gated unit
/// between; ends with dropout and the residual.
///
/// In mini-sequences (mst2024, section 3.2) it computes one part of the sequence after the other
/// and keeps only its input: each part's intermediate tensors are computed again in backward, so
/// that they exist for one part at a time.
class Mlp {
 public:
  struct Inner {
    Tensor u;       // [s, b, I/t] before GELU, or [s, b, 2I/t] gate and up
    Tensor z;       // [s, b, I/t], between
    Tensor gate;    // [s, b, I/t], of u, whose other half is made again
    Extras extras;  // [s, b, I/t] each
  };
  struct Saved {
    Tensor input;              // [s/t, b, h]; none where the norm is made again
    std::vector<Inner> inner;  // of all tokens, or of mini-sequences none: they are computed again,
                               // but where a program keeps those of each; none where the MLP is
                               // made again, without z where its nonlinearity is, and with the
                               // gate in place of u where the product beside it is
    Tensor mask;               // [s/t, b, h] u8, where masks are stored
    Extras results;            // [s/t, b, h] each

    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::norm, &input});
      for (Inner& part : inner) {
        for (Tensor* tensor : {&part.u, &part.gate}) kept.push_back({LayerModule::mlp, tensor});
        kept.push_back({LayerModule::activation, &part.z});
        for (Tensor* tensor : part.extras.tensors())
          kept.push_back({LayerModule::activation, tensor});
      }
      kept.push_back({LayerModule::residual, &mask});
      for (Tensor* tensor : results.tensors()) kept.push_back({LayerModule::residual, tensor});
    }
  };

  Mlp(const RankAt& at, const std::string& name, int layer);

  /// residual + dropout(down(between(up(x)))): x, residual and result [s/t, b, h]. The residual may
  /// be empty.
  Tensor forward(const Pass& outer, const Tensor& x, const Tensor& residual, Saved& saved) const;
  /// The gradient of x; that of the residual is dy itself. `input` gives x where it is not kept.
  Tensor backward(const Pass& outer, const Tensor& dy, Saved saved, const Rematerialized& input);

  /// True if backward needs nothing that only forward computes.
  static bool recomputes_itself(const Pass& pass) {
    return !keeps_inner(pass) && !pass.rank.config.keeps_masks();
  }
  /// Saved as forward would leave it then, without computing anything.
  static Saved remembered(const Pass& outer, const Tensor& x);
  /// Saved as forward would leave it with no dropout behind it, without its last product.
  Saved recompute(const Pass& outer, const Tensor& x) const;

  ParameterList parameters() { return join({up_.parameters(), down_.parameters()}); }

 private:
  static bool keeps_inner(const Pass& pass) {
    const RunConfig& c = pass.rank.config;
    return !pass.recomputes(LayerModule::mlp) &&
           (c.mlp_mini_sequences() == 1 || c.program.mlp.parts_stay);
  }
  Inner expand(const Pass& pass, const Tensor& x) const;
  /// z, of u.
  static void activate(const Pass& pass, Inner& inner);
  /// u, of the gate and of x.
  void make_up_again(const Pass& pass, const Tensor& x, Inner& inner) const;
  /// Tensors of `inner` that are kept for the backward pass.
  static Inner kept(const Pass& pass, const Inner& inner);
  /// The gradient of a part of x, which goes to `into` where that is not empty.
  Tensor backward(const Pass& pass, Tensor dprojected, const Rematerialized& x, Inner inner,
                  const Tensor& into);

  int layer_;
  ColumnParallelLinear up_;
  RowParallelLinear down_;
};

}  // namespace frugal::engine
