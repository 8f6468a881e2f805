#include "kernels/cpu/widened_gemm.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/scratch.h"

namespace frugal::kernels {
namespace {

bool is_narrow(const View& v) { return v.type == DType::bf16; }

/// Whole lines of a cache, none for what is used as it is.
int64_t floats_of(const View& v) { return is_narrow(v) ? (v.size() + 15) / 16 * 16 : 0; }

View matrix_of(const View& v, int64_t i) {
  if (v.shape.dims != 3) return v;
  return v.strided(i * v.stride[0], {v.shape[1], v.shape[2]}, {v.stride[1], v.stride[2]});
}

}  // namespace

WidenedGemm::WidenedGemm(const Gemm& op) : op_(op), product_(op) {
  const std::array views{&product_.a, &product_.b, &product_.bias, &product_.c};
  int64_t floats = 0;
  for (const View* v : views) floats += floats_of(*v);
  auto* memory = static_cast<float*>(
      scratch(Scratch::widened, static_cast<size_t>(floats * size_of(DType::f32))));
  for (View* v : views) {
    if (!is_narrow(*v)) continue;
    const int64_t taken = floats_of(*v);
    *v = View(memory, DType::f32, v->shape);
    memory += taken;
  }
  if (is_narrow(op.c)) product_.accumulate = false;
}

void WidenedGemm::widen(const Kernels& kernels) const {
  kernels(Copy{op_.a, product_.a});
  kernels(Copy{op_.b, product_.b});
  if (!op_.bias.empty()) kernels(Copy{op_.bias, product_.bias});
}

void WidenedGemm::round(const Kernels& kernels) const {
  if (is_narrow(op_.c)) kernels(Copy{product_.c, op_.c, op_.accumulate});
}

Gemm matrix_of(const Gemm& op, int64_t i) {
  Gemm one = op;
  for (View* v : {&one.a, &one.b, &one.c}) *v = matrix_of(*v, i);
  return one;
}

void each_part(const Gemm& op, const std::function<void(const Gemm&)>& f) {
  constexpr int64_t side = 1024;
  for (int64_t i = 0; i < op.m(); i += side) {
    for (int64_t j = 0; j < op.n(); j += side) {
      const int64_t rows = std::min(side, op.m() - i), cols = std::min(side, op.n() - j);
      Gemm part = op;
      part.a = op.a.sliced(op.transpose_a ? 1 : 0, i, rows);
      part.b = op.b.sliced(op.transpose_b ? 0 : 1, j, cols);
      part.c = op.c.sliced(0, i, rows).sliced(1, j, cols);
      if (!op.bias.empty()) part.bias = op.bias.sliced(0, j, cols);
      f(part);
    }
  }
}

}  // namespace frugal::kernels
