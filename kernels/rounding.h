#pragma once
#include <bit>
#include <cstdint>
#include <limits>

namespace frugal::kernels {

/// x as float32, an inexact one with its last bit set: rounded once more, to fewer bits, it is what
/// rounding x itself would give (Boldo and Melquiond, "Emulation of FMA and correctly rounded
/// sums", 2008).
constexpr float rounded_to_odd(double x) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || x != x || nearest == infinity || nearest == -infinity) return nearest;
  auto u = std::bit_cast<uint32_t>(nearest);
  if ((back < 0 ? -back : back) > (x < 0 ? -x : x)) --u;  // towards zero
  return std::bit_cast<float>(u | 1U);
}

}  // namespace frugal::kernels
