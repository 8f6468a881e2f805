#pragma once
#include <compare>
#include <memory>
#include <string>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/operations.h"

namespace frugal::kernels {
struct Gpu;
}

namespace frugal::kernels::cuda {

/// One matrix of a product as cuBLASLt sees it: column by column.
struct ColumnMajor {
  DType type = DType::f32;
  int64_t rows = 0, cols = 0, leading = 0, batch_stride = 0;
  bool transposed = false;  ///< is used as its transpose
  auto operator<=>(const ColumnMajor&) const = default;
};

/// Work of the library on a product before it writes it, or beside it. `auxiliary` is what stands
/// before GELU: written by gelu, read by gelu_backward. bias_gradient writes the sums of b
/// over the depth, [n] of d's type.
enum class Epilogue : uint8_t { none, gelu, gelu_backward, bias_gradient };

/// A product as cuBLASLt is asked for it: d [m, n] = a [m, k] · b [k, n], everything column by
/// column. A product of row-major matrices, c = x · y, is one of column-major ones with the
/// operands exchanged: cᵀ = yᵀ · xᵀ. What decides how it is computed, and so the key of what was
/// decided.
struct BlasProblem {
  ColumnMajor a, b, d;
  DType bias_type = DType::f32;
  bool bias = false, accumulate = false, tf32 = false;
  int64_t batch = 1;
  Epilogue epilogue = Epilogue::none;
  uint32_t alignment_a = 0, alignment_b = 0, alignment_d = 0, alignment_bias = 0,
           alignment_auxiliary = 0;  ///< of addresses, bytes

  bool exchanged = true;  ///< a is op.b and b is op.a; always where there is a bias or epilogue

  /// `auxiliary` is laid out as op.c is; of bias_gradient, the bias's gradient. Throws
  /// std::invalid_argument for a bias or an epilogue where c's rows are not contiguous.
  BlasProblem(const Gemm& op, bool tf32, Epilogue epilogue = Epilogue::none,
              const View& auxiliary = {});

  /// True if the library reads or writes a bias's memory.
  bool has_bias() const { return bias || epilogue == Epilogue::bias_gradient; }
  bool has_auxiliary() const {
    return epilogue == Epilogue::gelu || epilogue == Epilogue::gelu_backward;
  }
  /// True if the library may divide the depth among blocks. It rounds the sum of their parts to
  /// d's type before an epilogue (pytorch/pytorch pull request 180875; seen on an H100 with
  /// cuBLASLt 13.1), so that a bf16 product with one stays whole.
  bool divisible() const;
  /// True if the library may be asked to do the epilogue with the product: bf16 only (GELU of
  /// float32 would be an approximation), and laid out as its documentation demands. Where operands
  /// cannot be read 16 bytes at a time, it rounds the product to bf16 before it adds a bias (seen
  /// on an H100 with cuBLASLt 13.1).
  bool fusable() const;
  auto operator<=>(const BlasProblem&) const = default;
  /// All of it but `exchanged`, in one line: another problem has another text.
  std::string text() const;
};

/// Matrix products by cuBLASLt, sums in float32 (float64 for float64). Products of float32 are
/// float32's own, or tf32's where the environment variable FRUGAL_TF32 is 1. Which algorithm
/// computes a shape is decided by timing the ones that the library proposes, the first time that
/// the shape occurs in a process (kernels/cuda/algorithms.h), if no earlier process has
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

/// Issues an operation by its own kernel, or a product by the library, which may do the epilogue
/// too; fused attention by attend(op).
template <class Attend>
void issue(const Operation& operation, Blas& blas, const Launch& on, const Attend& attend) {
  std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (OwnKernel<Op>) {
          run(op, on);
        } else if constexpr (WithEpilogue<Op>) {
          if (blas.run(op, on)) return;
          blas.run(op.gemm, on);
          run(op.epilogue(), on);
        } else if constexpr (std::is_same_v<Op, Gemm>) {
          blas.run(op, on);
        } else {
          attend(op);
        }
      },
      operation);
}

}  // namespace frugal::kernels::cuda
