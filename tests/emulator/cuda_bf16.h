#pragma once
#include "kernels/types.h"
#include "tests/emulator/cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {frugal::kernels::Bf16(x).bits}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
/// The larger of both; what is not a number counts for nothing.
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
  const auto of = [](__nv_bfloat16 x) { return __uint_as_float(uint32_t{x.bits} << 16); };
  return __floats2bfloat162_rn(std::fmax(of(a.x), of(b.x)), std::fmax(of(a.y), of(b.y)));
}
