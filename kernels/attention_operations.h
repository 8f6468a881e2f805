#pragma once
#include <string_view>

#include "kernels/cost.h"
#include "kernels/dropout.h"

/// The operations between the projections of attention; what all operations have in common is in
/// kernels/operations.h.
namespace frugal::kernels {

/// Turns each pair (x[…, i], x[…, i + d/2]) by the angle position · frequencies[i], in place (Su et
/// al. 2021, arXiv:2104.09864, with the pairs of Llama). x is [positions, heads, d] or [positions,
/// groups, heads, d], with any strides of which the last is 1; position r is `first` + r.
/// frequencies [d/2] of A. inverse: by the angle's negative, which is the backward operation.
/// Angles are products in float64, reduced by full turns before they become A: exact to float32 at
/// any position. Of A float64 the product's own rounding may be left, 2^−53 of the angle before
/// it is reduced.
struct Rotary {
  static constexpr std::string_view name = "rotary";
  View x, frequencies;
  int64_t first = 0;
  bool inverse = false;
  Cost cost() const { return {0, detail::bytes_of(x, x, frequencies)}; }
};

/// p = softmax(scale · x) over the last dimension, then dropped = dropout(p). x, p and dropped are
/// [batch, rows, cols]; causal: row i sees columns 0 … i (cols = rows), the others become 0.
/// p may be x. `dropped` is empty exactly when dropout is not active. mask [batch, rows, cols] u8
/// (1 = kept) is written when it is not empty.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  View x, p, mask{}, dropped{};
  float scale = 1;
  bool causal = false;
  Dropout dropout;
  Cost cost() const { return {0, detail::bytes_of(x, p, mask, dropped)}; }
};

/// dx = scale · p · (dp − Σ_j p dp) with dp = dropout'(dy); the mask is read, or regenerated where
/// `mask` is empty and dropout is active. dx may be dy.
struct SoftmaxBackward {
  static constexpr std::string_view name = "softmax-backward";
  View dy, p, mask{}, dx;
  float scale = 1;
  bool causal = false;
  Dropout dropout;
  Cost cost() const { return {0, detail::bytes_of(dy, p, mask, dx)}; }
};

/// y = dropout(softmax(f(scale · q · kᵀ))) · v for each of `batch` matrices of q, without a tensor
/// of [batch, rows, cols] (Dao et al. 2022, "FlashAttention"). q and y are [batch, rows, d], k and
/// v [batch, cols, d]; or several matrices of q share one of k and of v (grouped-query attention,
/// Ainslie et al. 2023): q and y are [groups, heads, rows, d], k and v [groups, cols, d], and
/// matrix g · heads + h is head h of group g. All have any strides of which the last is 1.
///
/// causal: row i sees columns 0 … i (cols = rows), and of these the last `window` where that is not
/// 0. f is the identity, or with a softcap softcap · tanh(x / softcap). log_sum_exp [batch, rows]
/// of A is log Σ_j exp(f(scale · q · k)), for the backward operation. The dropout mask is never
/// stored: its decisions are those of Softmax, by position in [batch, rows, cols]; on GPUs they are
/// cuDNN's own, and others where the sharding is another.
struct FusedAttention {
  static constexpr std::string_view name = "fused-attention";
  View q, k, v, y, log_sum_exp;
  float scale = 1;
  bool causal = false;
  int64_t window = 0;
  float softcap = 0;
  Dropout dropout;

  int64_t groups() const { return k.shape[0]; }
  /// Matrices of q that share one of k and v.
  int64_t heads() const { return q.shape.dims == 4 ? q.shape[1] : 1; }
  int64_t batch() const { return groups() * heads(); }
  int64_t rows() const { return q.shape[q.shape.dims - 2]; }
  int64_t cols() const { return k.shape[1]; }
  /// The first column that a row sees.
  int64_t first_seen(int64_t row) const {
    return window > 0 && row >= window ? row + 1 - window : 0;
  }
  /// Pairs of a row and a column that it sees, of one matrix.
  double pairs() const {
    const auto n = static_cast<double>(rows());
    if (!causal) return n * static_cast<double>(cols());
    const auto hidden = window > 0 && window < rows() ? n - static_cast<double>(window) : 0.0;
    return n * (n + 1) / 2 - hidden * (hidden + 1) / 2;
  }
  /// Of products with [rows, cols] in one matrix of the batch: each has d of them for every pair of
  /// a row and a column that it sees, and no others count.
  double flops(int products) const {
    return 2.0 * products * static_cast<double>(batch()) * pairs() * static_cast<double>(q.cols());
  }
  static constexpr int products = 2;
  Cost cost() const { return {flops(products), detail::bytes_of(q, k, v, y, log_sum_exp)}; }
};

/// dq, dk and dv from dy, the gradient of y, and from the operands and results of `forward`, in
/// their shapes: dk and dv are sums over the matrices that share k and v. The probabilities are
/// computed again, which is the first of five products. Where k and v are a part of the columns
/// (ring attention), y and log_sum_exp are those of all of them, and the gradients this part's.
struct FusedAttentionBackward {
  static constexpr std::string_view name = "fused-attention-backward";
  FusedAttention forward;
  View dy, dq, dk, dv;

  static constexpr int products = 5;
  Cost cost() const {
    return {forward.flops(products), forward.cost().bytes + detail::bytes_of(dy, dq, dk, dv)};
  }
};

/// Attention over some columns becomes that over these and others, which is `part`: with l =
/// log(exp(log_sum_exp) + exp(part_log_sum_exp)), y := y · exp(log_sum_exp − l) + part ·
/// exp(part_log_sum_exp − l) and log_sum_exp := l (ring attention, arXiv:2310.01889, with the
/// normalized parts of flash attention). y [batch, rows, d] of A and part of T, with any strides of
/// which the last is 1, and so log_sum_exp [batch, rows] of A; part_log_sum_exp the same,
/// contiguous. Both are finite.
struct MergeAttention {
  static constexpr std::string_view name = "merge-attention";
  View y, log_sum_exp, part, part_log_sum_exp;
  Cost cost() const {
    return {0, detail::bytes_of(y, y, log_sum_exp, log_sum_exp, part, part_log_sum_exp)};
  }
};

}  // namespace frugal::kernels
