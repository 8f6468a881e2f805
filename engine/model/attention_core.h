#pragma once
#include <memory>

#include "engine/rank.h"

namespace frugal {

/// What is between the projections of self-attention: softmax(QKᵀ / √d), dropout, times V, for the
/// heads of this rank.
class AttentionCore {
 public:
  /// Kept for the backward pass: the first three by separate operations, 5as²b bytes in 16 bit that
  /// selective recomputation drops; the last by the fused one.
  struct Saved {
    Tensor probabilities;  // [b·a/t, s, s]
    Tensor mask;           // [b·a/t, s, s] u8, where masks are stored
    Tensor dropped;        // [b·a/t, s, s], the probabilities themselves without dropout
    Tensor log_sum_exp;    // [b·a/t, s]: statistics

    bool empty() const { return probabilities.empty() && log_sum_exp.empty(); }
    /// The same, kept.
    Saved kept() const;
  };

  /// As the run's configuration asks.
  static std::unique_ptr<const AttentionCore> make(const Rank& rank, int layer);

  explicit AttentionCore(int layer) : layer_(layer) {}
  virtual ~AttentionCore() = default;

  /// qkv [s, b, 3h/t] → context [s, b, h/t].
  virtual Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const = 0;
  /// dQ, dK and dV, laid out as qkv is; the context may be released when it is not needed.
  virtual Tensor backward(Rank& rank, const Tensor& dcontext, const Tensor& qkv, Tensor context,
                          Saved saved) const = 0;

 protected:
  int layer_;
};

}  // namespace frugal
