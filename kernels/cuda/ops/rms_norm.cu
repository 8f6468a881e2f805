#include "kernels/cuda/ops/norm.cuh"

namespace frugal::kernels::cuda {

template <>
void run(const RmsNorm& op, const Launch& on) {
  run_norm(op, on);
}
template <>
void run(const RmsNormBackward& op, const Launch& on) {
  run_norm_backward(op, on);
}

}  // namespace frugal::kernels::cuda
