// Fused attention's windows, groups and parts of the columns, each against attention without them,
// in several blocks of 128 rows and 512 columns with a rest.
#include <gtest/gtest.h>

#include "tests/kernels/cpu_levels.h"
#include "tests/support/held.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels {
namespace {

constexpr int64_t width = 8;

/// Elements from `first` on of one tensor, to be equal to, or added up to, those of others.
std::vector<double> part(const std::vector<double>& x, int64_t first, int64_t count) {
  return {x.begin() + first, x.begin() + first + count};
}
void add(std::vector<double>& sum, int64_t first, const std::vector<double>& x) {
  for (size_t i = 0; i < x.size(); ++i) sum[static_cast<size_t>(first) + i] += x[i];
}

/// The operands and results of attention of these shapes.
struct Operands {
  Held q, k, v, y, log_sum_exp, dy, dq, dk, dv;

  Operands(Device& device, DType type, const Shape& queries, const Shape& keys)
      : q(device, type, queries),
        k(device, type, keys),
        v(device, type, keys),
        y(device, type, queries),
        log_sum_exp(device, accumulation_type(type), {queries.size() / width}),
        dy(device, type, queries),
        dq(device, type, queries),
        dk(device, type, keys),
        dv(device, type, keys) {
    q.draw(table::test_seed());
    k.draw(table::test_seed() + 1);
    v.draw(table::test_seed() + 2);
    dy.draw(table::test_seed() + 3);
  }
  FusedAttention forward() const {
    return {.q = q.view(),
            .k = k.view(),
            .v = v.view(),
            .y = y.view(),
            .log_sum_exp = log_sum_exp.view(),
            .scale = 0.4F,
            .dropout = {}};
  }
  FusedAttentionBackward backward(const FusedAttention& forward) const {
    return {.forward = forward, .dy = dy.view(), .dq = dq.view(), .dk = dk.view(), .dv = dv.view()};
  }
};

FusedAttention sliced(FusedAttention op, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  for (View* x : {&op.q, &op.y}) *x = x->sliced(1, row, rows);
  for (View* x : {&op.k, &op.v}) *x = x->sliced(1, col, cols);
  op.log_sum_exp = op.log_sum_exp.sliced(0, row, rows);
  return op;
}

/// One key has no sums over other columns: y is v dropped or not.
TEST(FusedAttention, OfOneKeyIsItsValueOrNothing) {
  CpuDevice device(1);
  const Operands all(device, DType::f32, {1, 500, width}, {1, 1, width});
  FusedAttention forward = all.forward();
  forward.scale = 1;  // a score is exact, and its exponential 1
  forward.dropout = {0.5F, {9, 8, 7}, {}};
  device.execute(forward);
  const std::vector<double> value = all.v.values(), result = all.y.values();
  int kept = 0;
  for (size_t i = 0; i < 500; ++i) {
    const bool drops = result[width * i] == 0;
    kept += drops ? 0 : 1;
    for (size_t l = 0; l < width; ++l)
      EXPECT_EQ(result[width * i + l], drops ? 0 : value[l] * forward.dropout.keep_scale());
  }
  EXPECT_GT(kept, 150);
  EXPECT_LT(kept, 350);
}

/// Each row alone, with the columns that it sees.
TEST(FusedAttention, OfAWindowIsThatOfEachRowsColumns) {
  constexpr int64_t s = 1200;
  CpuDevice device(2);
  const Operands whole(device, DType::f64, {1, s, width}, {1, s, width});
  const Operands rows(device, DType::f64, {1, s, width}, {1, s, width});
  for (const int64_t window : {1, 100, 700}) {
    SCOPED_TRACE("window " + std::to_string(window));
    FusedAttention forward = whole.forward();
    forward.causal = true;
    forward.window = window;
    device.execute(forward);
    device.execute(whole.backward(forward));
    std::vector<double> dk(s * width), dv(s * width);
    for (int64_t i = 0; i < s; ++i) {
      const int64_t begin = std::max<int64_t>(0, i + 1 - window), count = i + 1 - begin;
      const FusedAttention row = sliced(rows.forward(), i, 1, begin, count);
      FusedAttentionBackward backward = rows.backward(row);
      backward.dy = backward.dy.sliced(1, i, 1);
      backward.dq = backward.dq.sliced(1, i, 1);
      backward.dk = backward.dk.sliced(1, 0, count);
      backward.dv = backward.dv.sliced(1, 0, count);
      device.execute(row);
      device.execute(backward);
      add(dk, begin * width, part(rows.dk.values(), 0, count * width));
      add(dv, begin * width, part(rows.dv.values(), 0, count * width));
    }
    EXPECT_LT(error(whole.y.values(), rows.y.values()), 1e-13);
    EXPECT_LT(error(whole.log_sum_exp.values(), rows.log_sum_exp.values()), 1e-13);
    EXPECT_LT(error(whole.dq.values(), rows.dq.values()), 1e-13);
    EXPECT_LT(error(whole.dk.values(), dk), 1e-13);
    EXPECT_LT(error(whole.dv.values(), dv), 1e-13);
  }
}

/// Heads with keys and values of their own, which are the group's; with the same dropout.
TEST(FusedAttention, OfAGroupIsThatOfHeadsWithItsKeysAndValues) {
  constexpr int64_t groups = 2, heads = 3, s = 650, size = s * width;
  CpuDevice device(2);
  for (const DType type : {DType::f32, DType::f64}) {
    const Operands shared(device, type, {groups, heads, s, width}, {groups, s, width});
    const Operands own(device, type, {groups * heads, s, width}, {groups * heads, s, width});
    for (const auto& [from, to] : {std::pair{&shared.k, &own.k}, std::pair{&shared.v, &own.v}}) {
      const Shape repeated{groups, heads, size};
      device.execute(Copy{.x = from->view().strided(0, repeated, {size, 0, 1}),
                          .y = to->view().reshaped(repeated)});
    }
    for (const Operands* operands : {&shared, &own}) {
      FusedAttention forward = operands->forward();
      forward.causal = true;
      forward.dropout = {0.2F, {table::test_seed(), 4, 9}, {}};
      device.execute(forward);
      device.execute(operands->backward(forward));
    }
    EXPECT_EQ(shared.y.values(), own.y.values());
    EXPECT_EQ(shared.log_sum_exp.values(), own.log_sum_exp.values());
    EXPECT_EQ(shared.dq.values(), own.dq.values());
    const double allowed = type == DType::f64 ? 1e-14 : 1e-6;
    for (const auto& [sum, terms] :
         {std::pair{&shared.dk, &own.dk}, std::pair{&shared.dv, &own.dv}}) {
      std::vector<double> expected(groups * size);
      for (int64_t b = 0; b < groups * heads; ++b)
        add(expected, b / heads * size, part(terms->values(), b * size, size));
      EXPECT_LT(error(sum->values(), expected), allowed);
    }
  }
}

/// Parts as in ring attention: y and log_sum_exp are those of all columns.
TEST(FusedAttention, GradientsByPartsOfTheColumnsAddUp) {
  constexpr int64_t rows = 200, cols = 1100, first = 600;
  CpuDevice device(3);
  const Operands whole(device, DType::f64, {1, rows, width}, {1, cols, width});
  const Operands parts(device, DType::f64, {1, rows, width}, {1, cols, width});
  const FusedAttention forward = whole.forward();
  device.execute(forward);
  device.execute(whole.backward(forward));
  std::vector<double> dq(rows * width);
  for (const auto& [begin, count] :
       {std::pair{int64_t{0}, first}, std::pair{first, cols - first}}) {
    FusedAttentionBackward backward = parts.backward(sliced(forward, 0, rows, begin, count));
    backward.dk = backward.dk.sliced(1, begin, count);
    backward.dv = backward.dv.sliced(1, begin, count);
    device.execute(backward);
    add(dq, 0, parts.dq.values());
  }
  EXPECT_LT(error(dq, whole.dq.values()), 1e-14);
  EXPECT_LT(error(parts.dk.values(), whole.dk.values()), 1e-14);
  EXPECT_LT(error(parts.dv.values(), whole.dv.values()), 1e-14);
}

}  // namespace
}  // namespace frugal::kernels
