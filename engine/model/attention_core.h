#pragma once
#include <memory>

#include "engine/rank.h"

namespace frugal {

/// What is between the projections of self-attention: softmax(QKᵀ / √d), dropout, times V, for the
/// heads of this rank.
class AttentionCore {
 public:
  /// Kept for the backward pass.
  struct Saved {
    Tensor qkv;            // [s, b, groups · (G + 2) · d], as forward was given it
    Tensor probabilities;  // [b · heads, s, s]; separate operations keep the three of [s, s],
    Tensor mask;           // [b · heads, s, s] u8, where masks are stored; 5as²b bytes in 16 bit
    Tensor dropped;        // [b · heads, s, s], the probabilities themselves without dropout
    Tensor log_sum_exp;    // [b · heads, s]: statistics; the fused operation keeps these

    /// Whether backward computes again what forward did.
    bool to_be_recomputed() const { return probabilities.empty() && log_sum_exp.empty(); }
    /// The same, kept; without what selective recomputation drops.
    Saved kept(bool selective) const;
  };

  /// As the run's configuration asks.
  static std::unique_ptr<const AttentionCore> make(const Rank& rank, int layer);

  explicit AttentionCore(int layer) : layer_(layer) {}
  virtual ~AttentionCore() = default;

  /// qkv [s, b, groups · (G + 2) · d] → context [s, b, groups · G · d].
  virtual Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const = 0;
  /// dQ, dK and dV, laid out as qkv is; the context may be released when it is not needed.
  virtual Tensor backward(Rank& rank, const Tensor& dcontext, Tensor context,
                          Saved saved) const = 0;

 protected:
  int layer_;
};

}  // namespace frugal
