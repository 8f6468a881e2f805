#pragma once
#include <memory>

#include "engine/model/head/head_views.h"
#include "engine/model/saved.h"

namespace frugal::engine {

/// Sizes of queries, keys and values where they are tensors of their own; otherwise empty.
Pieces pieces_of_qkv(const RunConfig& config);

/// Core of self-attention between its projections: softmax(QKᵀ / √d), dropout, times V, for the
/// heads of this rank. Where ranks share a sequence (RunConfig::context_parallel), s below is the
/// part s/c that a rank has, and it sees the whole.
class AttentionCore {
 public:
  /// Kept for the backward pass.
  struct Saved {
    Tensor qkv;            // [s, b, groups · (G + 2) · d], as arranged() gives it
    Tensor probabilities;  // [b · heads, s, s]; separate operations keep the three of [s, s],
    Tensor mask;           // [b · heads, s, s] u8, where masks are stored; 5as²b bytes in 16 bit
    Tensor dropped;        // [b · heads, s, s], the probabilities themselves without dropout
    Tensor log_sum_exp;    // [b · heads, s]: statistics; the fused operation keeps these

    /// Marks its tensors as kept, without those that are recomputed.
    Saved kept(const Pass& pass) const;
    /// Adds all but the statistics.
    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::projection, &qkv});
      for (Tensor* tensor : {&probabilities, &mask, &dropped})
        kept.push_back({LayerModule::core_attention, tensor});
    }
  };

  /// Makes the core that the run's configuration asks for.
  static std::unique_ptr<const AttentionCore> make(const RunConfig& config, int layer);

  /// `views`: how heads lie in the tensors that it is given.
  AttentionCore(int layer, const HeadViews& views) : layer_(layer), views_(views) {}
  virtual ~AttentionCore() = default;

  /// qkv [s, b, groups · (G + 2) · d] as the core computes with it: itself, or where ranks exchange
  /// parts of it what they have then.
  virtual Tensor arranged(const Pass&, Tensor qkv) const { return qkv; }
  /// saved.qkv → context [s, b, groups · G · d], and what else is saved.
  virtual Tensor forward(const Pass& pass, Saved& saved) const = 0;
  /// True if backward needs the context, too; otherwise it is given none.
  virtual bool needs_context() const { return true; }
  /// dQ, dK and dV, laid out as qkv is. What it is given is released when it is not needed.
  virtual Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const = 0;

 protected:
  /// saved.qkv, which counts as kept from here on unless it is made again.
  static View kept_qkv(const Pass& pass, const Saved& saved);
  /// [s, b, groups · G · d] beside qkv.
  Tensor allocate_context(const Pass& pass, const View& qkv) const;
  /// The factor of scores, 1/√d or the model's own.
  static float scale_of(const ModelConfig& m);

  int layer_;
  HeadViews views_;
};

}  // namespace frugal::engine
