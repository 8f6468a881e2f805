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

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace frugal
