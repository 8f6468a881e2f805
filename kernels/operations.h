#pragma once
#include <string_view>
#include <variant>

#include "kernels/dropout.h"
#include "kernels/view.h"

/// Every operation is a value: its operands, its attributes and its cost. A device executes it.
///
/// Unless said otherwise operands are contiguous, all floating-point operands of an operation have
/// the same type T (f32, bf16 or f64), arithmetic is in A = accumulation type of T (f32 for bf16),
/// and gradients of parameters have type A and are *added to*, everything else is overwritten.
/// "rows" is the product of all extents but the last, "cols" the last.
namespace frugal {

/// What an operation cannot avoid. `flops` counts matrix multiplications only, as the papers do;
/// `bytes` moves every operand once (twice what is both read and written).
struct Cost {
  double flops = 0;
  double bytes = 0;
};

namespace detail {
template <class... Views>
double bytes_of(const Views&... views) {
  return static_cast<double>((views.bytes() + ... + int64_t{0}));
}
}  // namespace detail

/// c = op(a) · op(b) (+ bias) (+ c), for each of `batch` matrices. Operands are [rows, cols] or
/// [batch, rows, cols] with any strides of which one of the last two is 1; a is stored [k, m] when
/// transposed, b is stored [n, k]. c may have type A while a and b have type T.
struct Gemm {
  static constexpr std::string_view name = "gemm";
  View a, b, c;
  View bias{};  ///< [n] of type T, or empty
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;

  int64_t batch() const { return c.shape.dims == 3 ? c.shape[0] : 1; }
  int64_t m() const { return c.shape[c.shape.dims - 2]; }
  int64_t n() const { return c.cols(); }
  int64_t k() const { return transpose_a ? a.shape[a.shape.dims - 2] : a.cols(); }
  Cost cost() const {
    const double mnk =
        static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k());
    return {2.0 * static_cast<double>(batch()) * mnk,
            detail::bytes_of(a, b, bias, c) + (accumulate ? detail::bytes_of(c) : 0)};
  }
};

/// sum[j] += Σ_i x[i, j]: the gradient of a bias. x [rows, cols] of T, sum [cols] of A.
struct ColumnSum {
  static constexpr std::string_view name = "column-sum";
  View x, sum;
  Cost cost() const { return {0, detail::bytes_of(x, sum, sum)}; }
};

/// y = (x − mean) · rstd · gamma + beta for each row; mean and rstd [rows] of A are kept.
struct LayerNorm {
  static constexpr std::string_view name = "layer-norm";
  View x, gamma, beta, y, mean, rstd;
  float epsilon = 1e-5F;
  Cost cost() const { return {0, detail::bytes_of(x, gamma, beta, y, mean, rstd)}; }
};

/// dx = LayerNorm'(dy) (+ add, the gradient that arrives over the residual path; may be dx itself);
/// dgamma and dbeta [cols] of A are added to.
struct LayerNormBackward {
  static constexpr std::string_view name = "layer-norm-backward";
  View dy, x, mean, rstd, gamma, add, dx, dgamma, dbeta;
  Cost cost() const {
    return {0, detail::bytes_of(dy, x, mean, rstd, gamma, add, dx, dgamma, dgamma, dbeta, dbeta)};
  }
};

/// y = x · rstd · gamma for each row with rstd = 1 / √(mean(x²) + epsilon); rstd [rows] of A is
/// kept.
struct RmsNorm {
  static constexpr std::string_view name = "rms-norm";
  View x, gamma, y, rstd;
  float epsilon = 1e-5F;
  Cost cost() const { return {0, detail::bytes_of(x, gamma, y, rstd)}; }
};

/// dx = RmsNorm'(dy) (+ add, as for LayerNormBackward; may be dx itself); dgamma [cols] of A is
/// added to.
struct RmsNormBackward {
  static constexpr std::string_view name = "rms-norm-backward";
  View dy, x, rstd, gamma, add, dx, dgamma;
  Cost cost() const { return {0, detail::bytes_of(dy, x, rstd, gamma, add, dx, dgamma, dgamma)}; }
};

/// y = x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2. y may be x.
struct Gelu {
  static constexpr std::string_view name = "gelu";
  View x, y;
  Cost cost() const { return {0, detail::bytes_of(x, y)}; }
};

/// dx = dy · Gelu'(x). dx may be dy.
struct GeluBackward {
  static constexpr std::string_view name = "gelu-backward";
  View x, dy, dx;
  Cost cost() const { return {0, detail::bytes_of(x, dy, dx)}; }
};

/// gemm, then y = Gelu(gemm.c): a layer that keeps what it was before GELU. gemm.c and y are
/// contiguous and of one type. What a device cannot do in one it does in `gemm` and `gelu()`.
struct GemmGelu {
  static constexpr std::string_view name = "gemm-gelu";
  Gemm gemm;
  View y;
  Gelu gelu() const { return {gemm.c, y}; }
  Cost cost() const { return {gemm.cost().flops, gemm.cost().bytes + detail::bytes_of(y)}; }
};

/// gemm, then gemm.c = gemm.c · Gelu'(x): the gradient that comes through a layer and the GELU
/// before it. gemm.c and x are contiguous and of one type.
struct GemmGeluBackward {
  static constexpr std::string_view name = "gemm-gelu-backward";
  Gemm gemm;
  View x;
  GeluBackward gelu() const { return {x, gemm.c, gemm.c}; }
  Cost cost() const { return {gemm.cost().flops, gemm.cost().bytes + detail::bytes_of(x)}; }
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

/// y = dropout(softmax(scale · q · kᵀ)) · v for each of `batch` matrices, without a tensor of
/// [batch, rows, cols] (Dao et al. 2022, "FlashAttention"). q and y are [batch, rows, d], k and v
/// [batch, cols, d], with any strides of which the last is 1; causal: row i sees columns 0 … i
/// (cols = rows). log_sum_exp [batch, rows] of A is log Σ_j exp(scale · q · k), for the backward
/// operation. The dropout mask is never stored: its decisions are those of Softmax, by position in
/// [batch, rows, cols]; on GPUs they are cuDNN's own, and others where the sharding is another.
struct FusedAttention {
  static constexpr std::string_view name = "fused-attention";
  View q, k, v, y, log_sum_exp;
  float scale = 1;
  bool causal = false;
  Dropout dropout;

  int64_t batch() const { return q.shape[0]; }
  int64_t rows() const { return q.shape[1]; }
  int64_t cols() const { return k.shape[1]; }
  /// Of products with [rows, cols] in one matrix of the batch: each has d of them for every pair of
  /// a row and a column that it sees, and no others count.
  double flops(int products) const {
    const auto n = static_cast<double>(rows());
    const double pairs = causal ? n * (n + 1) / 2 : n * static_cast<double>(cols());
    return 2.0 * products * static_cast<double>(batch()) * pairs * static_cast<double>(q.cols());
  }
  static constexpr int products = 2;
  Cost cost() const { return {flops(products), detail::bytes_of(q, k, v, y, log_sum_exp)}; }
};

/// dq, dk and dv from dy, the gradient of y, and from the operands and results of `forward`. The
/// probabilities are computed again, which is the first of five products.
struct FusedAttentionBackward {
  static constexpr std::string_view name = "fused-attention-backward";
  FusedAttention forward;
  View dy, dq, dk, dv;

  static constexpr int products = 5;
  Cost cost() const {
    return {forward.flops(products), forward.cost().bytes + detail::bytes_of(dy, dq, dk, dv)};
  }
};

/// y = dropout(x + bias) + residual. x, y, residual [rows, cols]; bias [groups, cols] of T, where
/// consecutive rows / groups rows share a row of it; bias and residual may be empty; y may be x.
/// mask [rows, cols] u8 is written when it is not empty.
struct BiasDropoutAdd {
  static constexpr std::string_view name = "bias-dropout-add";
  View x, bias{}, residual{}, y, mask{};
  Dropout dropout;
  Cost cost() const { return {0, detail::bytes_of(x, bias, residual, y, mask)}; }
};

/// dx = dropout'(dy), dbias [groups, cols] of A += Σ dx over the rows of a group (may be empty).
/// The mask is read, or regenerated where `mask` is empty and dropout is active. dx may be dy.
/// The residual's gradient is dy itself.
struct BiasDropoutAddBackward {
  static constexpr std::string_view name = "bias-dropout-add-backward";
  View dy, mask{}, dx, dbias{};
  Dropout dropout;
  Cost cost() const { return {0, detail::bytes_of(dy, mask, dx, dbias, dbias)}; }
};

/// y[i] = table[ids[i] − first], or 0 where ids[i] is outside [first, first + table rows).
/// ids [rows] i32, table [vocabulary shard, cols], y [rows, cols].
struct Embedding {
  static constexpr std::string_view name = "embedding";
  View ids, table, y;
  int64_t first = 0;
  Cost cost() const { return {0, detail::bytes_of(ids, y, y)}; }
};

/// dtable[ids[i] − first] += dy[i], in the order of i. dtable is of type A.
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding-backward";
  View ids, dy, dtable;
  int64_t first = 0;
  Cost cost() const {
    return {
        0, detail::bytes_of(ids, dy) + 2.0 * static_cast<double>(dy.size() * size_of(dtable.type))};
  }
};

/// What one vocabulary shard contributes to a cross-entropy: statistics[i] = {max_j x[i, j],
/// Σ_j exp(x[i, j] − max), x[i, label − first] or 0 where the label is in another shard}.
/// logits [rows, shard] of A, labels [rows] i32, statistics [rows, 3] of A.
struct CrossEntropyStatistics {
  static constexpr std::string_view name = "cross-entropy-statistics";
  View logits, labels, statistics;
  int64_t first = 0;
  Cost cost() const { return {0, detail::bytes_of(logits, labels, statistics)}; }
};

/// loss[i] = log Σ exp(x) − x[label], from the statistics [shards, rows, 3] of all shards, and
/// gradient = (softmax(x) − onehot(label)) · gradient_scale. A label of −100 gives loss 0 and
/// gradient 0. loss [rows] of A; gradient [rows, shard] of T, which may be the logits themselves
/// where T is A; an empty gradient is not computed.
struct CrossEntropy {
  static constexpr std::string_view name = "cross-entropy";
  View logits, labels, statistics, loss, gradient{};
  int64_t first = 0;
  float gradient_scale = 1;
  static constexpr int32_t ignored_label = -100;
  Cost cost() const {
    return {0, detail::bytes_of(labels, statistics, loss, gradient) +
                   (gradient.empty() ? 0 : detail::bytes_of(logits))};
  }
};

/// What the optimizers' operations have in common: weights of type T with their gradient of type A,
/// which is multiplied by gradient_scale first. master, of type A, is empty where T is A; otherwise
/// it is what is updated, and the weights are only rounded from it.
///
/// The new weights go to `result`, of the weights' type and size, which may be the weights and must
/// not overlap them otherwise; to the weights themselves where it is empty.
///
/// With a prediction, which needs a master, the weights are not what it becomes but what
/// `prediction` further updates like this one would make of it: w + prediction · (w − w before).
struct WeightUpdate {
  View weights, gradient, master{}, result{};
  float learning_rate = 1e-3F, weight_decay = 0;
  /// Decay takes learning_rate · weight_decay · weight from a weight; otherwise weight_decay ·
  /// weight is part of the gradient, as of a loss with weight_decay / 2 · Σ weight² (L2).
  bool decoupled = true;
  float gradient_scale = 1;
  float prediction = 0;

  const View& target() const { return result.empty() ? weights : result; }
  double bytes() const {
    return detail::bytes_of(gradient, target()) +
           (master.empty() ? detail::bytes_of(weights) : detail::bytes_of(master, master));
  }
};

/// Momentum: m := beta · m + (1 − beta) · gradient, w := w − learning_rate · m (Narayanan et al.
/// 2021, arXiv:2006.09503, section 3.1: without bias correction). moment is of type A; an empty one
/// with beta = 0 makes it stochastic gradient descent.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  WeightUpdate update;
  View moment{};
  float beta = 0.9F;
  Cost cost() const { return {0, update.bytes() + detail::bytes_of(moment, moment)}; }
};

/// Adam, with decoupled decay AdamW; moments of type A. step counts from 1.
struct Adam {
  static constexpr std::string_view name = "adam";
  WeightUpdate update;
  View first_moment, second_moment;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  int64_t step = 1;
  Cost cost() const {
    return {0, update.bytes() +
                   detail::bytes_of(first_moment, first_moment, second_moment, second_moment)};
  }
};

/// total[0] += Σ x (or Σ x²), in an order that does not depend on the number of threads. total f64.
struct Sum {
  static constexpr std::string_view name = "sum";
  View x, total;
  bool squared = false;
  Cost cost() const { return {0, detail::bytes_of(x, total)}; }
};

/// x = value.
struct Fill {
  static constexpr std::string_view name = "fill";
  View x;
  float value = 0;
  Cost cost() const { return {0, detail::bytes_of(x)}; }
};

/// y = x, converted to y's type.
struct Convert {
  static constexpr std::string_view name = "convert";
  View x, y;
  Cost cost() const { return {0, detail::bytes_of(x, y)}; }
};

/// x = deviation · N(0, 1) by Box–Muller from the words of each element's own group: element i of
/// the serial tensor has the same value however it is sharded.
struct RandomNormal {
  static constexpr std::string_view name = "random-normal";
  View x;
  float deviation = 1;
  RandomStream stream;
  GlobalIndex index;
  Cost cost() const { return {0, detail::bytes_of(x)}; }
};

using Operation =
    std::variant<Gemm, GemmGelu, GemmGeluBackward, ColumnSum, LayerNorm, LayerNormBackward, RmsNorm,
                 RmsNormBackward, Gelu, GeluBackward, Softmax, SoftmaxBackward, FusedAttention,
                 FusedAttentionBackward, BiasDropoutAdd, BiasDropoutAddBackward, Embedding,
                 EmbeddingBackward, CrossEntropyStatistics, CrossEntropy, Momentum, Adam, Sum, Fill,
                 Convert, RandomNormal>;

inline std::string_view name_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.name; }, operation);
}
inline Cost cost_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.cost(); }, operation);
}

}  // namespace frugal
