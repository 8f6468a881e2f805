#pragma once
#include <memory>

#include "kernels/operations.h"

namespace frugal {

/// Matrix multiplication by oneDNN; float64, which only tests need, by plain loops. Prepared
/// multiplications are kept by shape, strides and types. For one thread at a time.
class CpuGemm {
 public:
  explicit CpuGemm(int threads);
  ~CpuGemm();
  void run(const Gemm& op);

  /// Makes run_alone() possible for operands of these shapes, strides and types.
  void prepare_alone(const Gemm& op);
  /// Multiplies two matrices by the calling thread alone: many threads of one team may each do so
  /// at a time. False where oneDNN fails, because an exception may not leave the team.
  bool run_alone(const Gemm& op) const;

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace frugal
