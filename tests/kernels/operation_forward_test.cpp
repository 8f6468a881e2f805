// Every row on the CPU: against float64, in place, at every SIMD level, with any number of threads.
#include <random>

#include "kernels/support/scratch.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/device_rows.h"

namespace frugal::kernels::table {
namespace {

/// Columns around the widths of vectors and of cache lines, and pairs drawn anew in every run.
std::vector<Setting> settings(DType type) {
  std::mt19937_64 random(test_seed());
  const auto up_to = [&](uint64_t n) { return static_cast<int64_t>(random() % n) + 1; };
  std::vector<Setting> all;
  for (const int64_t cols : {1, 3, 17, 65, 100, 513}) {
    all.push_back({type, up_to(9), cols, random()});
  }
  all.push_back({type, up_to(70), up_to(70), random()});
  all.push_back({type, 1, 8, random()});
  all.push_back({type, 150 + up_to(150), 24, random()});  // several pieces of rows
  return all;
}

class OnTheCpu : public DeviceRows {
 protected:
  OnTheCpu() : DeviceRows(Adding::exact) {}
};

TEST_P(OnTheCpu, AgreesWithFloat64) {
  everywhere(settings, [](const Case& test_case, const Values& before) {
    at_each_level([&](CpuDevice& device) { expect_float64(device, test_case, before); });
  });
}

/// Rows that are summed piece by piece, of one piece and of several, the last one shorter.
class LongRows : public OnTheCpu {};

TEST_P(LongRows, AgreeWithFloat64) {
  const auto long_rows = [](DType type) {
    std::vector<Setting> all;
    for (const int64_t cols : {4096, 4097, 8192, 16384 + 100})
      all.push_back({type, 3, cols, test_seed()});
    return all;
  };
  everywhere(long_rows, [](const Case& test_case, const Values& before) {
    at_each_level([&](CpuDevice& device) { expect_float64(device, test_case, before); });
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, LongRows,
                         ::testing::Values("cross-entropy-statistics",
                                           "cross-entropy-statistics/second-shard",
                                           "cross-entropy-statistics/narrow", "cross-entropy",
                                           "cross-entropy/two-shards", "cross-entropy/narrow",
                                           "cross-entropy/at-once", "cross-entropy/at-once-wide"),
                         test_name);

/// Small outputs as if they were larger than the cache.
TEST_P(OnTheCpu, IsTheSamePastTheCache) {
  const int64_t cache = last_level_cache_bytes();
  everywhere(settings, [cache](const Case& test_case, const Values& before) {
    at_each_level([&](CpuDevice& device) {
      for (const int64_t shift : {0, 1}) {
        const Memory kept = run(device, test_case, before, {.shift = shift});
        set_last_level_cache_bytes(0);
        const Memory past = run(device, test_case, before, {.shift = shift});
        set_last_level_cache_bytes(cache);
        EXPECT_EQ(kept, past) << shift << " elements off the boundary";
      }
    });
  });
}

TEST_P(OnTheCpu, IsTheSameInPlace) {
  everywhere(settings, [](const Case& test_case, const Values& before) {
    if (test_case.aliases.empty()) return;
    at_each_level([&](CpuDevice& device) { expect_same_in_place(device, test_case, before); });
  });
}

/// Large enough that every thread has something to do.
TEST_P(OnTheCpu, HasTheSameBitsForAnyNumberOfThreads) {
  if (row_.name.starts_with("gemm") && !choose_instructions().starts_with("avx512"))
    GTEST_SKIP() << "without AVX-512 oneDNN adds up in an order that depends on its threads";
  const auto large = [](DType type) { return std::vector<Setting>{{type, 301, 517, test_seed()}}; };
  everywhere(large, [](const Case& test_case, const Values& before) {
    CpuDevice one(1), two(2), three(3);
    const Memory alone = run(one, test_case, before);
    EXPECT_EQ(alone, run(two, test_case, before)) << "2 threads";
    EXPECT_EQ(alone, run(three, test_case, before)) << "3 threads";
  });
}

std::vector<std::string> all_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows()) names.push_back(candidate.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, OnTheCpu, ::testing::ValuesIn(all_rows()), test_name);

}  // namespace
}  // namespace frugal::kernels::table
