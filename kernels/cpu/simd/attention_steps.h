#pragma once
#include <algorithm>

#include "kernels/dropout.h"
#include "kernels/view.h"

/// The row work between the products of a block of fused attention, done by one thread. T is the
/// type of q, k and v, A its accumulation type; all buffers are contiguous.
namespace frugal {

/// A block of the scores of one [rows, cols] matrix.
struct ScoreBlock {
  DType type = DType::f32;       ///< T
  int64_t rows = 0, cols = 0;    ///< of the block
  int64_t first_seen = 0;        ///< columns of the block that its first row sees
  int64_t element = 0;           ///< the block's first in [batch, rows, cols]
  int64_t elements_per_row = 0;  ///< of the whole matrix
  float scale = 1;
  bool causal = false;  ///< each row sees one column more
  Dropout dropout;

  int64_t seen(int64_t row) const {
    return causal ? std::clamp<int64_t>(first_seen + row, 0, cols) : cols;
  }
};

/// The next columns of an online softmax (Milakov and Gimelshein 2018): p = dropout(exp(scale ·
/// scores − largest)), with largest and sum of all columns so far, and y multiplied by what a new
/// largest makes of it. scores [rows, cols] of A; p of T, which may be the scores where T is A;
/// largest and sum [rows], y [rows, d] of A.
struct OnlineSoftmax {
  ScoreBlock block;
  View scores, p, largest, sum, y;
};

/// p = exp(scale · scores − log_sum_exp), dropped = dropout(p) and dscores = scale · p ·
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

}  // namespace frugal
