#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

template <class T>
void merge_row(const MergeAttention& op, int64_t matrix, int64_t row) {
  using A = Accumulator<T>;
  A& before = op.log_sum_exp.as<A>()[matrix * op.log_sum_exp.stride[0] + row];
  const A other = op.part_log_sum_exp.as<A>()[matrix * op.y.shape[1] + row];
  const A largest = std::max(before, other);
  const A own_sum = std::exp(before - largest), part_sum = std::exp(other - largest);
  const A own = own_sum / (own_sum + part_sum), added = part_sum / (own_sum + part_sum);
  before = largest + std::log(own_sum + part_sum);
  A* const y = op.y.as<A>() + matrix * op.y.stride[0] + row * op.y.stride[1];
  const T* const part = op.part.as<T>() + matrix * op.part.stride[0] + row * op.part.stride[1];
  map(op.y.cols(), y, false, [=](int64_t j, int64_t count) {
    return load<Vec<A>>(y + j, count) * own + load<Vec<A>>(part + j, count) * added;
  });
}

}  // namespace

template <>
void run(const MergeAttention& op) {
  const int64_t batch = op.y.shape[0];
  by_type(op.part.type, [&]<class T>(T) {
    parallel(op.y.shape[1], batch * op.y.cols(), [&](int64_t row) {
      for (int64_t matrix = 0; matrix < batch; ++matrix) merge_row<T>(op, matrix, row);
    });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
