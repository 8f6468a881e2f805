#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "engine/namespace.h"
#include "kernels/support/error.h"

/// Rules that a configuration keeps; each throws InputError with one line where it is broken.
namespace frugal::engine::rules {

/// Refuses a value that is no multiple of the divisor; `next` says what to do.
inline void divisible(std::string_view what, int64_t value, std::string_view by, int64_t divisor,
                      std::string_view next) {
  if (value % divisor != 0)
    throw InputError(
        fmt::format("{} ({}) must be divisible by {} ({}); {}", what, value, by, divisor, next));
}

/// Refuses what is not from 1 to `high`.
inline void in_range(std::string_view what, int64_t value, int64_t high) {
  if (value < 1 || value > high)
    throw InputError(fmt::format("{} is {}; it must be from 1 to {}", what, value, high));
}

/// Far beyond any model there is; together with fits() they keep every size within int64.
inline constexpr int64_t most_layers = 1 << 16, most_hidden = 1 << 20, most_tokens = 1 << 24,
                         most_ranks = 1 << 16;

/// Refuses a size in bytes that is the product of these where it has no place in an int64.
inline void fits(std::string_view what, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      throw InputError(
          fmt::format("{} would take {} bytes, and sizes must stay below 2^63 bytes; choose "
                      "smaller ones",
                      what, fmt::join(factors, " x ")));
}

}  // namespace frugal::engine::rules
