#pragma once
#include <string_view>
#include <type_traits>
#include <variant>

#include "kernels/dropout.h"
#include "kernels/view.h"

/// Operations are values: operands, attributes, a name and a cost. Devices execute them.
///
/// Unless said otherwise operands are contiguous, all floating-point operands of an operation have
/// the same type T (f32, bf16 or f64), arithmetic is in A = accumulation type of T (f32 for bf16),
/// and gradients of parameters have type A or T and are *added to*, everything else is overwritten.
/// Sums over rows are in type A whatever the type they are added to.
/// "rows" is the product of all extents but the last, "cols" the last.
///
/// One more operation is a struct here and an entry of Operation. The linker then asks for
/// run(const Op&) in kernels/cpu/simd, run(const Op&, const Launch&) in kernels/cuda/ops and
/// rows_of<Op>() in kernels/table.
namespace frugal::kernels {

/// Least work of an operation. `flops` counts matrix multiplications only, as the papers do;
/// `bytes` counts every operand once, and twice where it is read and written.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

namespace detail {
template <class... Views>
double bytes_of(const Views&... views) {
  return static_cast<double>((views.bytes() + ... + int64_t{0}));
}
/// Bytes of the elements in memory, each once: a stride of 0 repeats them.
inline double distinct_bytes_of(const View& view) {
  int64_t bytes = view.bytes();
  for (int i = 0; i < view.shape.dims; ++i)
    if (view.stride[static_cast<size_t>(i)] == 0 && view.shape[i] > 0) bytes /= view.shape[i];
  return static_cast<double>(bytes);
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

/// sum[j] += Σ_i x[i, j]: the gradient of a bias. x [rows, cols] of T, sum [cols] of A
/// or T.
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
/// dgamma and dbeta [cols], each of A or T, are added to.
struct LayerNormBackward {
  static constexpr std::string_view name = "layer-norm-backward";
  View dy, x, mean, rstd, gamma, add, dx, dgamma, dbeta;
  Cost cost() const {
    return {0, detail::bytes_of(dy, x, mean, rstd, gamma, add, dx, dgamma, dgamma, dbeta, dbeta)};
  }
};

/// y = x · rstd · (offset + gamma) for each row with rstd = 1 / √(mean(x²) + epsilon); rstd [rows]
/// of A is kept. The gain offset + gamma is of type A.
struct RmsNorm {
  static constexpr std::string_view name = "rms-norm";
  View x, gamma, y, rstd;
  float epsilon = 1e-5F;
  float offset = 0;
  Cost cost() const { return {0, detail::bytes_of(x, gamma, y, rstd)}; }
};

/// dx = RmsNorm'(dy) (+ add, as for LayerNormBackward; may be dx itself); dgamma [cols] of A or T
/// is added to.
struct RmsNormBackward {
  static constexpr std::string_view name = "rms-norm-backward";
  View dy, x, rstd, gamma, add, dx, dgamma;
  float offset = 0;  ///< RmsNorm's
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

/// Activation of a gated linear unit's gate (Shazeer 2020, "GLU variants improve transformer").
enum class Gate : uint8_t {
  silu,  ///< x / (1 + exp(−x)): SwiGLU
  gelu   ///< as Gelu has it: GeGLU
};

/// y[i, j] = gate(x[i, j]) · x[i, n + j]. x [rows, 2n], y [rows, n].
struct GatedUnit {
  static constexpr std::string_view name = "gated-unit";
  View x, y;
  Gate gate = Gate::silu;
  Cost cost() const { return {0, detail::bytes_of(x, y)}; }
};

/// dx[i, j] = dy[i, j] · gate'(x[i, j]) · x[i, n + j] and dx[i, n + j] = dy[i, j] · gate(x[i, j]).
/// dx [rows, 2n], dy [rows, n]. dx may be x.
struct GatedUnitBackward {
  static constexpr std::string_view name = "gated-unit-backward";
  View x, dy, dx;
  Gate gate = Gate::silu;
  Cost cost() const { return {0, detail::bytes_of(x, dy, dx)}; }
};

/// y = cap · tanh(x / cap) (Gemma 2, arXiv:2408.00118, section 2). y may be x.
struct SoftCap {
  static constexpr std::string_view name = "soft-cap";
  View x, y;
  float cap = 1;
  Cost cost() const { return {0, detail::bytes_of(x, y)}; }
};

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
  /// FLOPs of `products` products with the scores [rows, cols]: d multiplications and additions for
  /// every pair of a row and a column that it sees, in each matrix of the batch.
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

/// y = x, or y += x, element by element, with any strides of which the last is 1 (or the last
/// extent is 1). x and y have type T or A each. A stride of 0 in x repeats it. x and y do not
/// overlap.
struct Copy {
  static constexpr std::string_view name = "copy";
  View x, y;
  bool accumulate = false;
  Cost cost() const {
    return {0, detail::distinct_bytes_of(x) + (accumulate ? 2 : 1) * detail::bytes_of(y)};
  }
};

/// to = from, bytes between a device's memory and the host's (Device::allocate_on_host), either
/// way. Contiguous, of one type and size.
struct Transfer {
  static constexpr std::string_view name = "transfer";
  View from, to;
  Cost cost() const { return {0, detail::bytes_of(from, to)}; }
};

/// gemm, then y = Gelu(gemm.c): a layer that keeps GELU's input. gemm.c and y are contiguous and of
/// one type. A device that cannot do both in one executes gemm and epilogue().
struct GemmGelu {
  static constexpr std::string_view name = "gemm-gelu";
  Gemm gemm;
  View y;
  Gelu epilogue() const { return {gemm.c, y}; }
  Cost cost() const { return {gemm.cost().flops, gemm.cost().bytes + detail::bytes_of(y)}; }
};

/// gemm, then gemm.c = gemm.c · Gelu'(x): the gradient that comes through a layer and the GELU
/// before it. gemm.c and x are contiguous and of one type.
struct GemmGeluBackward {
  static constexpr std::string_view name = "gemm-gelu-backward";
  Gemm gemm;
  View x;
  GeluBackward epilogue() const { return {x, gemm.c, gemm.c}; }
  Cost cost() const { return {gemm.cost().flops, gemm.cost().bytes + detail::bytes_of(x)}; }
};

/// gemm and the ColumnSum of its transposed a, whose rows are the gradients of a layer's outputs:
/// the gradients of the layer's weights and of its bias.
struct GemmBiasGradient {
  static constexpr std::string_view name = "gemm-bias-gradient";
  Gemm gemm;
  View dbias;  ///< [m] of type A or T, added to
  ColumnSum epilogue() const { return {gemm.a, dbias}; }
  Cost cost() const {
    return {gemm.cost().flops, gemm.cost().bytes + detail::bytes_of(dbias, dbias)};
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

/// dx = dropout'(dy), dbias [groups, cols] of A or T += Σ dx over a group's rows (may be empty).
/// The mask is read, or regenerated where `mask` is empty and dropout is active. dx may be dy.
/// The residual's gradient is dy itself.
struct BiasDropoutAddBackward {
  static constexpr std::string_view name = "bias-dropout-add-backward";
  View dy, mask{}, dx, dbias{};
  Dropout dropout;
  Cost cost() const { return {0, detail::bytes_of(dy, mask, dx, dbias, dbias)}; }
};

/// y[i] = scale · table[ids[i] − first], or 0 where ids[i] is outside [first, first + table rows).
/// ids [rows] i32, table [vocabulary shard, cols], y [rows, cols].
struct Embedding {
  static constexpr std::string_view name = "embedding";
  View ids, table, y;
  int64_t first = 0;
  float scale = 1;
  Cost cost() const { return {0, detail::bytes_of(ids, y, y)}; }
};

/// dtable[ids[i] − first] += scale · dy[i], in the order of i. dtable is of type A or T; of type T
/// a row's sum over i is made in type A and rounded once.
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding-backward";
  View ids, dy, dtable;
  int64_t first = 0;
  float scale = 1;
  Cost cost() const {
    return {
        0, detail::bytes_of(ids, dy) + 2.0 * static_cast<double>(dy.size() * size_of(dtable.type))};
  }
};

/// One vocabulary shard's part of a cross-entropy: statistics[i] = {max_j x[i, j],
/// Σ_j exp(x[i, j] − max), x[i, label − first] or 0 where the label is in another shard}.
/// logits [rows, shard] of A or T, labels [rows] i32, statistics [rows, 3] of A.
struct CrossEntropyStatistics {
  static constexpr std::string_view name = "cross-entropy-statistics";
  View logits, labels, statistics;
  int64_t first = 0;
  Cost cost() const { return {0, detail::bytes_of(logits, labels, statistics)}; }
};

/// loss[i] = log Σ exp(x) − x[label], from the statistics [shards, rows, 3] of all shards, and
/// gradient = (softmax(x) − onehot(label)) · gradient_scale. A label of −100 gives loss 0 and
/// gradient 0. loss [rows] of A; logits and gradient [rows, shard] of A or T each, the gradient no
/// wider; it may be the logits themselves where they have its type; an empty one is not computed.
/// Empty statistics are those of the logits, which have the whole vocabulary then; they are
/// computed on the way, and the gradient is not empty. Where the logits are what a SoftCap made of
/// others and `softcap` is its cap, the gradient is that of the others: · (1 − (x / softcap)²).
struct CrossEntropy {
  static constexpr std::string_view name = "cross-entropy";
  View logits, labels, statistics, loss, gradient{};
  int64_t first = 0;
  float gradient_scale = 1;
  float softcap = 0;
  static constexpr int32_t ignored_label = -100;
  Cost cost() const {
    return {0, detail::bytes_of(labels, statistics, loss, gradient) +
                   (gradient.empty() ? 0 : detail::bytes_of(logits))};
  }
};

/// Operands and attributes of every optimizer's operation: weights of type T with their gradient of
/// type A or T, which is only read. master, of type A, is empty where T is A; otherwise it is what
/// is updated, and the weights are only rounded from it. Where T is narrower and there is no
/// master, the weights themselves are updated and rounded to T, as pure 16-bit training has it:
/// each step rounds them.
///
/// The new weights go to `result`, of the weights' type and size, which may be the weights and must
/// not overlap them otherwise; to the weights themselves where it is empty.
///
/// keeps_state writes new weights alone, for a step that may be made again otherwise: master and
/// moments stay as they are. Without a master, `result` must not be the weights then.
///
/// squared_norm is that of all gradients that are clipped together, [1], f64. Where its root is
/// larger than clip, and clip is not 0, the gradient is first multiplied by clip / root, a float32.
/// Nothing is clipped where it is empty. finite_only writes nothing at all where it is not finite.
/// One number, it does not count among the bytes.
///
/// prediction, which needs a master, makes the weights what `prediction` further updates like this
/// one would make of the master: w + prediction · (w − w before).
struct WeightUpdate {
  View weights, gradient, master{}, result{}, squared_norm{};
  float learning_rate = 1e-3F, weight_decay = 0;
  /// Decay takes learning_rate · weight_decay · weight from a weight; otherwise weight_decay ·
  /// weight is part of the gradient, as of a loss with weight_decay / 2 · Σ weight² (L2).
  bool decoupled = true;
  double clip = 0;
  float prediction = 0;
  bool keeps_state = false, finite_only = false;

  const View& target() const { return result.empty() ? weights : result; }
  double bytes() const {
    return detail::bytes_of(gradient, target()) +
           (master.empty() ? detail::bytes_of(weights) : state_bytes(master));
  }
  /// Bytes of state that is read, and written unless it stays.
  template <class... Views>
  double state_bytes(const Views&... state) const {
    return (keeps_state ? 1 : 2) * detail::bytes_of(state...);
  }
};

/// Momentum: m := beta · m + (1 − beta) · gradient, w := w − learning_rate · m (Narayanan et al.
/// 2021, arXiv:2006.09503, section 3.1: without bias correction). moment is of type A or T; an
/// empty one with beta = 0 makes it stochastic gradient descent.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  WeightUpdate update;
  View moment{};
  float beta = 0.9F;
  Cost cost() const { return {0, update.bytes() + update.state_bytes(moment)}; }
};

/// Adam, with decoupled decay AdamW; moments of type A, or both of T. step counts from 1.
struct Adam {
  static constexpr std::string_view name = "adam";
  WeightUpdate update;
  View first_moment, second_moment;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  int64_t step = 1;
  Cost cost() const {
    return {0, update.bytes() + update.state_bytes(first_moment, second_moment)};
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

/// The list of all operations. CPU kernels (kernels/cpu/simd/kernels.h), CUDA kernels
/// (kernels/cuda/ops/kernels.h), the cost model, the table of rows (kernels/table) and the counts
/// of a device's work follow it, in its order.
using Operation =
    std::variant<Gemm, GemmGelu, GemmGeluBackward, GemmBiasGradient, ColumnSum, LayerNorm,
                 LayerNormBackward, RmsNorm, RmsNormBackward, Gelu, GeluBackward, GatedUnit,
                 GatedUnitBackward, SoftCap, Rotary, Copy, Transfer, Softmax, SoftmaxBackward,
                 FusedAttention, FusedAttentionBackward, MergeAttention, BiasDropoutAdd,
                 BiasDropoutAddBackward, Embedding, EmbeddingBackward, CrossEntropyStatistics,
                 CrossEntropy, Momentum, Adam, Sum, Fill, Convert, RandomNormal>;

/// Operation of a product and of an epilogue, which a device may do in one.
template <class Op>
concept WithEpilogue = requires(const Op& op) {
  op.gemm;
  op.epilogue();
};

/// Operation with a kernel of ours on each device. Libraries execute the others: matrix products,
/// with an epilogue or without, and fused attention.
template <class Op>
concept OwnKernel =
    !(WithEpilogue<Op> || std::is_same_v<Op, Gemm> || std::is_same_v<Op, FusedAttention> ||
      std::is_same_v<Op, FusedAttentionBackward>);

std::string_view name_of(const Operation& operation);
Cost cost_of(const Operation& operation);

}  // namespace frugal::kernels
