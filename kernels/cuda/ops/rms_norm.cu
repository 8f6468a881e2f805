#include "kernels/cuda/ops/norm.cuh"

namespace frugal::kernels::cuda {

void run(const RmsNorm& op, const Launch& on) { run_norm(op, on); }
void run(const RmsNormBackward& op, const Launch& on) { run_norm_backward(op, on); }

}  // namespace frugal::kernels::cuda
