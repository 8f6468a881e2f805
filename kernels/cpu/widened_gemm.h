#pragma once
#include <functional>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/operations.h"

namespace frugal::kernels {

/// A product of two bf16 matrices as one of float32, for processors on which oneDNN has none of
/// bf16: operands are widened, which is exact, and the result is rounded once. Lives in scratch
/// memory of the calling thread until that makes another one.
class WidenedGemm {
 public:
  /// `op`: of matrices, not of batches of them.
  explicit WidenedGemm(const Gemm& op);

  const Gemm& product() const { return product_; }
  void widen(const Kernels& kernels) const;
  void round(const Kernels& kernels) const;

 private:
  Gemm op_, product_;
};

/// The i-th of a batch of products.
Gemm matrix_of(const Gemm& op, int64_t i);

/// f(part) for parts of op.c that together are all of it, with so few rows and columns that a
/// WidenedGemm of each needs little memory beside the tensors.
void each_part(const Gemm& op, const std::function<void(const Gemm&)>& f);

}  // namespace frugal::kernels
