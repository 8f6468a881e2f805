#pragma once
#include <array>
#include <vector>

#include "kernels/dropout.h"
#include "kernels/table/operation_table.h"

namespace frugal::kernels::table {

inline double at(const std::vector<double>& values, int64_t i) {
  return values[static_cast<size_t>(i)];
}
inline double& at(std::vector<double>& values, int64_t i) { return values[static_cast<size_t>(i)]; }

/// Element [row, col] of a matrix, or [batch, row, col] of several, in float64. `batch` counts all
/// matrices of a view of four dimensions.
double& element(const View& v, int64_t batch, int64_t row, int64_t col);
/// Element i of a view, counted in the order of its shape, in float64.
double& element(const View& v, int64_t i);

/// Philox4x32-10 of Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
/// written apart from the kernels' own.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Words of a serial tensor's element group.
std::array<uint32_t, 4> words_of(const RandomStream& stream, int64_t group);

/// Factor of a local element under dropout: 0 or keep_scale.
double dropout_factor(const Dropout& dropout, int64_t element);
/// Sets a mask to dropout's decisions.
void decide(std::vector<double>& mask, const Dropout& dropout);

/// GELU as its operation says, its derivative, and the magnitude that the derivative's rounding
/// errors are relative to: 1 − tanh² cancels in both tails.
double gelu_of(double x);
double gelu_slope(double x);
double gelu_slope_scale(double x);

/// Makes normal numbers wide enough to reach both tails of a gate.
inline void widen(std::vector<double>& values) {
  for (double& x : values) x *= 3;
}

/// Cap of the logits, in all rows that have one.
inline constexpr float logit_cap = 6;

/// An index that is neither aligned with the generator's groups nor contiguous, and where the high
/// word of the group's number changes. Seed 0: the serial run's own.
GlobalIndex scattered(uint64_t seed, int64_t run);

}  // namespace frugal::kernels::table
