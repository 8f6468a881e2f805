#include "kernels/cuda/ops/division.cuh"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace frugal::kernels::cuda {
namespace {

constexpr uint32_t most = std::numeric_limits<uint32_t>::max();

void expect_exact(uint32_t n, uint32_t by) {
  const Division division(by);
  const uint32_t quotient = division.quotient(n);
  ASSERT_EQ(quotient, n / by) << n << " / " << by;
  ASSERT_EQ(division.rest(n, quotient), n % by) << n << " % " << by;
}

/// Numbers that show a factor that is off by one: multiples of the divisor, and just before them.
TEST(Division, IsExactAroundMultiples) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t by = std::max<uint32_t>(1, random() >> (random() % 32));
    const uint32_t multiple = random() / by * by, last = most / by * by;
    for (const uint32_t n : {0U, 1U, multiple, multiple - 1, multiple + 1, last, last - 1, most}) {
      expect_exact(n, by);
    }
  }
}

TEST(Division, IsExactForPowersOfTwoAndTheirNeighbours) {
  for (int bit = 0; bit < 32; ++bit) {
    for (const uint32_t by : {(1U << bit) - 1, 1U << bit, (1U << bit) + 1}) {
      if (by == 0) continue;
      for (const uint32_t n : {0U, by - 1, by, by + 1, most / 2, most - 1, most}) {
        expect_exact(n, by);
      }
    }
  }
}

}  // namespace
}  // namespace frugal::kernels::cuda
