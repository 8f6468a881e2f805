#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/artifacts.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

TEST(DataParallel, ThePapersIterationsGiveItsOverheadInPercent) {
  constexpr double alone = 37.83, together = 39.15;
  const Records records = records_of(data_parallel(), {.scale = std::nullopt}, [](Record& record) {
    record.add_sample(metric::step_time, "s", record.config.data_parallel > 1 ? together : alone);
  });
  const std::vector<Claim> claims = data_parallel().claims(records);
  const auto overhead = std::ranges::find(claims, "dp-overhead", &Claim::id);
  ASSERT_NE(overhead, claims.end());
  EXPECT_EQ(overhead->unit, "%");
  EXPECT_NEAR(overhead->value.value(), 100 * (together / alone - 1), 1e-9);
  EXPECT_EQ(overhead->verdict(), Verdict::reproduced);
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
