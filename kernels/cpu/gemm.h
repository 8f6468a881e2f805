#pragma once
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

}  // namespace frugal::kernels
