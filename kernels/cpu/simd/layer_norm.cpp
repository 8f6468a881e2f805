#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/norm.h"

namespace frugal::kernels::FRUGAL_SIMD {

void run(const LayerNorm& op) { run_norm(op); }
void run(const LayerNormBackward& op) { run_norm_backward(op); }

}  // namespace frugal::kernels::FRUGAL_SIMD
