#pragma once
#include <string_view>
#include <variant>

#include "kernels/attention_operations.h"
#include "kernels/update_operations.h"

/// Every operation is a value: its operands, its attributes and its cost. A device executes it.
///
/// Unless said otherwise operands are contiguous, all floating-point operands of an operation have
/// the same type T (f32, bf16 or f64), arithmetic is in A = accumulation type of T (f32 for bf16),
/// and gradients of parameters have type A or T and are *added to*, everything else is overwritten.
/// A sum over rows is in type A whatever the type it is added to.
/// "rows" is the product of all extents but the last, "cols" the last.
namespace frugal::kernels {

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

/// What a gated linear unit does to its gate (Shazeer 2020, "GLU variants improve transformer").
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

/// gemm, whose transposed a has the gradients of a layer's outputs in its rows, and what ColumnSum
/// makes of a: the gradients of the layer's weights and of its bias. What a device cannot do in one
/// it does in `gemm` and `sum()`.
struct GemmBiasGradient {
  static constexpr std::string_view name = "gemm-bias-gradient";
  Gemm gemm;
  View dbias;  ///< [m] of type A or T, added to
  ColumnSum sum() const { return {gemm.a, dbias}; }
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

/// What one vocabulary shard contributes to a cross-entropy: statistics[i] = {max_j x[i, j],
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
    std::variant<Gemm, GemmGelu, GemmGeluBackward, GemmBiasGradient, ColumnSum, LayerNorm,
                 LayerNormBackward, RmsNorm, RmsNormBackward, Gelu, GeluBackward, GatedUnit,
                 GatedUnitBackward, SoftCap, Rotary, Copy, Transfer, Softmax, SoftmaxBackward,
                 FusedAttention, FusedAttentionBackward, MergeAttention, BiasDropoutAdd,
                 BiasDropoutAddBackward, Embedding, EmbeddingBackward, CrossEntropyStatistics,
                 CrossEntropy, Momentum, Adam, Sum, Fill, Convert, RandomNormal>;

inline std::string_view name_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.name; }, operation);
}
inline Cost cost_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.cost(); }, operation);
}

}  // namespace frugal::kernels
