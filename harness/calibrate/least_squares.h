#pragma once
#include <functional>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// A number that is to be found: where the search begins, and what it may be at least and at most.
struct Unknown {
  double start = 0, low = 0, high = 0;
};

struct LeastSquares {
  std::vector<double> values;     ///< of the unknowns
  std::vector<double> residuals;  ///< there
  /// How far each value can be moved, the others following it, until the sum of squares is one
  /// percent larger. Infinite where the residuals do not say what it is; 0 where they all are 0.
  std::vector<double> flat;
  /// Whether a change of each alone changes any residual.
  std::vector<bool> matters;
};

/// What makes the sum of the squares of `residuals(values)` smallest, near the start: Levenberg's
/// and Marquardt's method (Marquardt 1963, "An algorithm for least-squares estimation of nonlinear
/// parameters") with derivatives from differences. It goes where the sum falls, so that it ends in
/// a kink too, and takes the same way every time. Residuals must be as many for all values, at
/// least one; each unknown must lie above 0 and between its bounds.
LeastSquares least_squares(
    const std::function<std::vector<double>(const std::vector<double>&)>& residuals,
    const std::vector<Unknown>& unknowns);

/// a · x = b by elimination with pivots, a square; empty where a has no inverse.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b);

}  // namespace frugal::harness
