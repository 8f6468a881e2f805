#pragma once
#include <algorithm>
#include <tuple>

#include "kernels/operations.h"

namespace frugal::kernels {

/// A block of the scores of one [rows, cols] matrix.
struct ScoreBlock {
  DType type = DType::f32;       ///< T
  int64_t rows = 0, cols = 0;    ///< of the block
  int64_t diagonal = 0;          ///< the block's column that has the number of its first row
  int64_t element = 0;           ///< the block's first in [batch, rows, cols]
  int64_t elements_per_row = 0;  ///< of the whole matrix
  float scale = 1;
  bool causal = false;  ///< a row sees columns up to its own, of them the last `window`; 0: all
  int64_t window = 0;
  float softcap = 0;  ///< 0: none
  Dropout dropout;

  /// The columns that a row sees: [begin, end).
  int64_t begin(int64_t row) const {
    return window > 0 ? std::clamp<int64_t>(diagonal + row + 1 - window, 0, cols) : 0;
  }
  int64_t end(int64_t row) const {
    return causal ? std::clamp<int64_t>(diagonal + row + 1, 0, cols) : cols;
  }
};

/// The next columns of an online softmax (Milakov and Gimelshein 2018): p = dropout(exp(f(scale ·
/// scores) − largest)), with largest and sum of all columns so far, and y multiplied by what a new
/// largest makes of it; f is FusedAttention's. scores [rows, cols] of A, where there is a softcap
/// overwritten; p of T, which may be the scores where T is A; largest and sum [rows], y [rows, d]
/// of A.
struct OnlineSoftmax {
  ScoreBlock block;
  View scores, p, largest, sum, y;
};

/// p = exp(f(scale · scores) − log_sum_exp), dropped = dropout(p) and dscores = scale · f' · p ·
/// (dropout'(dp) − dots). scores and dp [rows, cols] of A; dropped and dscores of T, which may be
/// dp and the scores where T is A; log_sum_exp and dots [rows] of A.
struct ScoreGradient {
  ScoreBlock block;
  View scores, dp, log_sum_exp, dots, dropped, dscores;
};

/// dots[i] = Σ_j a[i, j] · b[i, j]. a and b [rows, d] of T with any distance of rows.
struct RowDots {
  View a, b, dots;
};

/// y[i, j] = x[i, j] · factor[i], or x[i, j] where factor is empty. x [rows, d] and factor [rows]
/// of A; y of T with any distance of rows.
struct ScaledRows {
  View x, factor, y;
};

/// Kernel of an operation, or of a step of fused attention, which one thread executes.
template <class Op>
using Kernel = void (*)(const Op&);

template <class... Ops>
auto own_kernels(const std::variant<Ops...>&) -> decltype(std::tuple_cat(
    std::conditional_t<OwnKernel<Ops>, std::tuple<Kernel<Ops>>, std::tuple<>>{}...));

/// Kernels of one instruction set: of every operation that no library executes, and of the steps of
/// fused attention.
struct Kernels {
  using All = decltype(std::tuple_cat(own_kernels(std::declval<Operation>()),
                                      std::tuple<Kernel<OnlineSoftmax>, Kernel<ScoreGradient>,
                                                 Kernel<RowDots>, Kernel<ScaledRows>>{}));
  All all;

  template <class Op>
  void operator()(const Op& op) const {
    std::get<Kernel<Op>>(all)(op);
  }
};

}  // namespace frugal::kernels
