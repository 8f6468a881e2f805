#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/norm.h"

namespace frugal::kernels::FRUGAL_SIMD {

void run(const RmsNorm& op) { run_norm(op); }
void run(const RmsNormBackward& op) { run_norm_backward(op); }

}  // namespace frugal::kernels::FRUGAL_SIMD
