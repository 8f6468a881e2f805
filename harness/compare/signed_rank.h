#pragma once
#include <span>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// The two-sided p-value of the signed-rank test (Wilcoxon, 1945): how often differences whose
/// signs are drawn by a coin are as one-sided as these are. That is so of pairs that ran in an
/// order drawn by a coin, if both sides are alike, whatever else slowed a pair down. Exact for any
/// number, by counting all draws. Ties have their mean rank; a zero has a rank and no sign (Pratt,
/// 1959). Throws std::invalid_argument where there is no difference.
double signed_rank_test(std::span<const double> differences);

/// The smallest that it can be, of so many differences.
double smallest_signed_rank_p(size_t differences);

/// The median of all means of two differences (Hodges and Lehmann, 1963). Its interval has what
/// signed_rank_test() does not tell apart from it at 1 - level: none where no `differences.size()`
/// draws could.
Estimate center_of(std::span<const double> differences, double level = 0.95);

}  // namespace frugal::harness
