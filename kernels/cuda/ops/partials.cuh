#pragma once
#include "kernels/cuda/ops/block.cuh"

namespace frugal::kernels::cuda {

/// first[c] or, from column `cols` on, second[c − cols] += Σ partial[b, c] over the blocks, of
/// which `slices` parts are summed by a warp each. A block has 32 columns.
template <int slices, class A, class G>
__global__ void __launch_bounds__(slices* warp)
    add_partials(const A* partial, int64_t blocks, int64_t width, int64_t cols, G* first,
                 G* second) {
  FRUGAL_SHARED(A, of_slice, [slices][warp]);
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int slice = static_cast<int>(threadIdx.x) / warp;
  const int64_t column = int64_t{blockIdx.x} * warp + lane;
  A sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int64_t b = slice; b < blocks; b += slices) sum += partial[b * width + column];
  }
  of_slice[slice][lane] = sum;
  __syncthreads();
  if (slice != 0 || column >= width) return;
  G* const to = column < cols ? first + column : second + (column - cols);
  A total = to_wide(*to);
#pragma unroll
  for (int s = 0; s < slices; ++s) total += of_slice[s][lane];
  *to = to_stored<G>(total);
}

}  // namespace frugal::kernels::cuda
