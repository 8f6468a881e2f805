#pragma once
#include <memory>

#include "engine/model/head/head_views.h"
#include "engine/pass.h"

namespace frugal::engine {

/// Queries, keys and values as tensors of their own, where a program has them so
/// (Keeping::separate_projections).
Pieces pieces_of_qkv(const RunConfig& config);

/// What is between the projections of self-attention: softmax(QKᵀ / √d), dropout, times V, for the
/// heads of this rank. Where ranks share a sequence (RunConfig::context_parallel), s below is the
/// part s/c that a rank has, and what it sees is the whole.
class AttentionCore {
 public:
  /// Kept for the backward pass.
  struct Saved {
    Tensor qkv;            // [s, b, groups · (G + 2) · d], as the core needs it again
    Tensor probabilities;  // [b · heads, s, s]; separate operations keep the three of [s, s],
    Tensor mask;           // [b · heads, s, s] u8, where masks are stored; 5as²b bytes in 16 bit
    Tensor dropped;        // [b · heads, s, s], the probabilities themselves without dropout
    Tensor log_sum_exp;    // [b · heads, s]: statistics; the fused operation keeps these

    /// Whether backward computes again what forward did.
    bool to_be_recomputed() const { return probabilities.empty() && log_sum_exp.empty(); }
    /// The same, kept; without what selective recomputation drops.
    Saved kept(const Pass& pass) const;
  };

  /// As the run's configuration asks.
  static std::unique_ptr<const AttentionCore> make(const RunConfig& config, int layer);

  /// `views`: how heads lie in the tensors that it is given.
  AttentionCore(int layer, const HeadViews& views) : layer_(layer), views_(views) {}
  virtual ~AttentionCore() = default;

  /// qkv [s, b, groups · (G + 2) · d] → context [s, b, groups · G · d].
  virtual Tensor forward(const Pass& pass, Tensor qkv, Saved& saved) const = 0;
  /// dQ, dK and dV, laid out as qkv is. What it is given is released when it is not needed.
  virtual Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const = 0;

 protected:
  /// [s, b, groups · G · d] beside qkv.
  Tensor allocate_context(const Pass& pass, const View& qkv) const;
  /// The factor of scores, 1/√d or the model's own.
  static float scale_of(const ModelConfig& m);

  int layer_;
  HeadViews views_;
};

}  // namespace frugal::engine
