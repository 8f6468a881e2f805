#pragma once
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd/kernels.h"

namespace frugal::kernels {

/// Fused attention in blocks that stay in a core's cache: products by oneDNN, the row work between
/// them by the vectorised kernels. Beyond its operands it uses, for each thread, a few blocks of
/// scores and, in the backward pass, at most one [rows, d] and, where heads share keys, two
/// [cols, d] of type A. The result does not depend on the number of threads. For one thread at a
/// time.
class CpuAttention {
 public:
  CpuAttention(CpuGemm& gemm, const Kernels& kernels) : gemm_(gemm), kernels_(kernels) {}

  void run(const FusedAttention& op);
  void run(const FusedAttentionBackward& op);

 private:
  CpuGemm& gemm_;
  const Kernels& kernels_;
};

}  // namespace frugal::kernels
