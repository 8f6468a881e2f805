#pragma once
#include <memory>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops/launch.h"
#include "kernels/operations.h"

namespace frugal::kernels {
struct Gpu;
}

namespace frugal::kernels::cuda {

/// Matrix products by cuBLASLt, sums in float32 (float64 for float64). Products of float32 are
/// float32's own, or tf32's where the environment variable FRUGAL_TF32 is 1. Which algorithm
/// computes a shape is decided by timing the ones that the library proposes, the first time that
/// the shape occurs in a process (kernels/cuda/fastest.h), if no earlier process has
/// (kernels/cuda/algorithm_file.h); so the last bits of a result may differ from one run to
/// another, but not within one. For one thread at a time.
class Blas {
 public:
  Blas(CudaMemory& memory, const Gpu& gpu);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  void run(const Gemm& op, const Launch& on);
  /// Product and what follows it in one; false, and nothing is done, where the library has no such
  /// algorithm.
  bool run(const GemmGelu& op, const Launch& on);
  bool run(const GemmGeluBackward& op, const Launch& on);
  /// The library overwrites the bias's gradient, so that it comes by scratch memory.
  bool run(const GemmBiasGradient& op, const Launch& on);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace frugal::kernels::cuda
