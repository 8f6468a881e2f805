#pragma once
#include <bit>
#include <cstdint>

namespace frugal::kernels::cuda {

/// n / by for any 32-bit n, by a product and two shifts: a tenth of the instructions of a division
/// whose divisor the compiler does not know. Granlund and Montgomery, Division by invariant
/// integers using multiplication (1994), figure 4.1.
class Division {
 public:
  constexpr Division() = default;
  /// by > 0.
  constexpr explicit Division(uint32_t by) : by_(by) {
    const int bits = std::bit_width(by - 1);
    factor_ = static_cast<uint32_t>((((uint64_t{1} << bits) - by) << 32) / by) + 1;
    first_ = bits > 0 ? 1 : 0;
    last_ = bits > 0 ? bits - 1 : 0;
  }
  constexpr uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * factor_ >> 32);
    return (high + ((n - high) >> first_)) >> last_;
  }
  constexpr uint32_t rest(uint32_t n, uint32_t quotient) const { return n - quotient * by_; }

 private:
  uint32_t by_ = 1, factor_ = 1;
  int first_ = 0, last_ = 0;
};

}  // namespace frugal::kernels::cuda
