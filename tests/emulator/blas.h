#pragma once
#include "kernels/operations.h"

namespace frugal {

/// A product as kernels/cuda/blas asks the library for it, by plain loops over column-major memory:
/// what is tested is the translation.
void emulated_product(const Gemm& op);

}  // namespace frugal
