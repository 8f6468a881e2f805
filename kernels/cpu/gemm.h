#pragma once
#include <functional>
#include <memory>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/operations.h"

namespace frugal::kernels {

/// Matrix multiplication by oneDNN; float64, which only tests need, by plain loops. Prepared
/// multiplications are kept by shape, strides and types. For one thread at a time.
class CpuGemm {
 public:
  CpuGemm(int threads, const Kernels& kernels);
  ~CpuGemm();
  void run(const Gemm& op);

  /// Makes run_alone() possible for operands of these shapes, strides and types.
  void prepare_alone(const Gemm& op);
  /// Multiplies two matrices by the calling thread alone: many threads of one team may each do so
  /// at a time. False where oneDNN fails, because an exception may not leave the team.
  bool run_alone(const Gemm& op) const;

 private:
  struct Cache;

  bool one_thread_to_a_matrix(int64_t batch) const;
  bool widens(const Gemm& op) const { return op.a.type == DType::bf16 && widens_; }
  void run_widened(const Gemm& op);

  const Kernels& kernels_;
  const bool widens_;  ///< bf16 to float32
  std::unique_ptr<Cache> cache_;
};

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
