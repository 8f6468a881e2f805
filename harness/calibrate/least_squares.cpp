#include "harness/calibrate/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace frugal::harness {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

/// Of a value, for a derivative: small, and far more than the rounding of what is computed with it.
constexpr double relative_step = 1e-4;
constexpr double tolerance = 1e-7;  ///< of values, at the end
constexpr double growth = 0.01;     ///< of the sum of squares, for LeastSquares::flat

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// A place of the search: in units of the start, so that unknowns of any size are alike.
class Search {
 public:
  Search(const std::function<Vector(const Vector&)>& residuals,
         const std::vector<Unknown>& unknowns)
      : f_(residuals), unknowns_(unknowns), at_(unknowns.size(), 1) {
    residuals_ = f_(values(at_));
  }

  void run() {
    double damping = 1e-3;
    for (int i = 0; i < 100 && damping < 1e9; ++i) {
      differentiate();
      while (damping < 1e9) {
        const double moved = step(damping);
        if (moved > 0) {
          damping = std::max(damping / 10, 1e-12);
          if (moved < tolerance) return;
          break;
        }
        damping *= 10;
      }
    }
  }

  LeastSquares result() {
    differentiate();
    LeastSquares found{values(at_), residuals_, {}, {}};
    const double sum = dot(residuals_, residuals_);
    for (size_t i = 0; i < at_.size(); ++i) {
      found.matters.push_back(normal_[i][i] > 0);
      Vector unit(at_.size());
      unit[i] = 1;
      const Vector column = solve(normal_, unit);
      found.flat.push_back(column.empty() || !(column[i] > 0)
                               ? std::numeric_limits<double>::infinity()
                               : std::sqrt(growth * sum * column[i]) * unknowns_[i].start);
    }
    return found;
  }

 private:
  Vector values(const Vector& at) const {
    Vector all(at);
    for (size_t i = 0; i < at.size(); ++i)
      all[i] = std::clamp(at[i] * unknowns_[i].start, unknowns_[i].low, unknowns_[i].high);
    return all;
  }

  /// The derivatives' products with each other, and with the residuals.
  void differentiate() {
    const size_t n = at_.size();
    Matrix derivatives;
    for (size_t i = 0; i < n; ++i) {
      Vector low = at_, high = at_;
      low[i] *= 1 - relative_step;
      high[i] *= 1 + relative_step;
      const double width = (values(high)[i] - values(low)[i]) / unknowns_[i].start;
      Vector derivative = f_(values(high));
      const Vector before = f_(values(low));
      for (size_t k = 0; k < derivative.size(); ++k)
        derivative[k] = width > 0 ? (derivative[k] - before[k]) / width : 0;
      derivatives.push_back(std::move(derivative));
    }
    normal_.assign(n, Vector(n));
    slope_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) normal_[i][j] = dot(derivatives[i], derivatives[j]);
      slope_[i] = dot(derivatives[i], residuals_);
    }
  }

  /// One step, if the sum of squares falls by it; returns how far any unknown moved, or 0.
  double step(double damping) {
    Matrix damped = normal_;
    for (size_t i = 0; i < damped.size(); ++i)  // what does not matter stays where it is
      damped[i][i] = damped[i][i] > 0 ? damped[i][i] * (1 + damping) : 1;
    const Vector delta = solve(damped, slope_);
    if (delta.empty()) return 0;
    Vector next = at_;
    for (size_t i = 0; i < next.size(); ++i) next[i] -= delta[i];
    const Vector allowed = values(next);
    double moved = 0;
    for (size_t i = 0; i < next.size(); ++i) {
      next[i] = allowed[i] / unknowns_[i].start;
      moved = std::max(moved, std::abs(next[i] - at_[i]));
    }
    Vector residuals = f_(allowed);
    if (!(dot(residuals, residuals) < dot(residuals_, residuals_))) return 0;
    at_ = std::move(next);
    residuals_ = std::move(residuals);
    return moved;
  }

  const std::function<Vector(const Vector&)>& f_;
  const std::vector<Unknown>& unknowns_;
  Vector at_, residuals_, slope_;
  Matrix normal_;
};

}  // namespace

Vector solve(Matrix a, Vector b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t k = i + 1; k < n; ++k)
      if (std::abs(a[k][i]) > std::abs(a[pivot][i])) pivot = k;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    if (a[i][i] == 0) return {};
    for (size_t k = i + 1; k < n; ++k) {
      const double factor = a[k][i] / a[i][i];
      for (size_t j = i; j < n; ++j) a[k][j] -= factor * a[i][j];
      b[k] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t j = i + 1; j < n; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

LeastSquares least_squares(const std::function<Vector(const Vector&)>& residuals,
                           const std::vector<Unknown>& unknowns) {
  Search search(residuals, unknowns);
  search.run();
  return search.result();
}

}  // namespace frugal::harness
