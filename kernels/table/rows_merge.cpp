#include <algorithm>
#include <cmath>

#include "kernels/table/operation_table.h"
#include "kernels/table/oracle.h"

namespace frugal::kernels::table {
namespace {

/// How attention and the part that is merged into it lie: [batch, rows, d], or as a transformer has
/// them, [rows, batch, d]; then the logarithmic sums are the last rows of as many again.
Case merge(const Setting& s, bool by_rows) {
  constexpr int64_t batch = 2;
  const DType a = accumulation_type(s.type);
  const int64_t rows = s.rows, d = s.cols, before = by_rows ? rows : 0, all_rows = before + rows;
  const Shape matrices{batch, rows, d}, whole = by_rows ? Shape{rows, batch, d} : matrices;
  const auto view = [=](const View& v) {
    return by_rows ? v.strided(0, matrices, {d, batch * d, 1}) : v;
  };
  Case c;
  c.operands = {{"y", a, whole, Role::updated},
                {"log_sum_exp", a, {batch, all_rows}, Role::updated},
                {"part", s.type, whole},
                {"part_log_sum_exp", a, {batch, rows}}};
  c.bind = [=](const Views& v) {
    return MergeAttention{.y = view(v["y"]),
                          .log_sum_exp = v["log_sum_exp"].sliced(1, before, rows),
                          .part = view(v["part"]),
                          .part_log_sum_exp = v["part_log_sum_exp"]};
  };
  c.prepare = [=](Values& v) {  // far enough apart that one of the two may count for little
    for (double& x : v["part_log_sum_exp"]) x = round_to(a, 8 * x);
  };
  c.roundings = 16;
  c.reference = [=](Expected& e) {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t sum = b * all_rows + before + i;
        const double own = at(e["log_sum_exp"], sum);
        const double other = at(e["part_log_sum_exp"], b * rows + i);
        const double all = std::max(own, other) + std::log1p(std::exp(-std::abs(own - other)));
        // Of an exponential's argument, a difference of the two.
        const double condition = 1 + std::abs(own - other);
        for (int64_t j = 0; j < d; ++j) {
          const int64_t element = ((by_rows ? i * batch + b : b * rows + i) * d) + j;
          const double kept = at(e["y"], element) * std::exp(own - all);
          const double added = at(e["part"], element) * std::exp(other - all);
          e.set("y", element, kept + added, (std::abs(kept) + std::abs(added)) * condition);
        }
        e.set("log_sum_exp", sum, all, std::abs(own) + std::abs(other) + 1);
      }
  };
  return c;
}

}  // namespace

template <>
std::vector<Row> rows_of<MergeAttention>() {
  return {{"merge-attention", with(merge, false), {}, {0, 624}},
          {"merge-attention/model", with(merge, true), {}, {0, 624}}};
}

}  // namespace frugal::kernels::table
