// Every row on the CPU: against float64, in place, at every SIMD level, with any number of threads.
#include <gtest/gtest.h>

#include <random>

#include "kernels/support/scratch.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/run_case.h"

namespace frugal::kernels::table {
namespace {

constexpr std::array types = {DType::f32, DType::bf16, DType::f64};

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

class OnTheCpu : public ::testing::TestWithParam<std::string> {
 protected:
  const Row& row_ = row(GetParam());

  /// Calls test for every type, size and level of instructions that this processor has.
  template <class Test>
  void everywhere(Test test) const {
    for (const DType type : types) {
      for (const Setting& setting : settings(type)) {
        SCOPED_TRACE(describe(row_, setting));
        const Case test_case = row_.build(setting);
        const Values before = random_values(test_case, test_seed());
        test(test_case, before);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(OnTheCpu, AgreesWithFloat64) {
  everywhere([](const Case& test_case, const Values& before) {
    const Expected reference = expected(test_case, before);
    for (const std::string& level : cpu_levels()) {
      const CpuLevel scope(level);
      CpuDevice device(1);
      for (const int64_t shift : {0, 1}) {
        const Memory after = run(device, test_case, before, {.shift = shift});
        EXPECT_TRUE(agrees(test_case, reference, values_of(test_case, after)))
            << level << ", " << shift << " elements off the boundary";
      }
    }
  });
}

/// Rows that are summed piece by piece, of one piece and of several, the last one shorter.
class LongRows : public ::testing::TestWithParam<std::string> {};

TEST_P(LongRows, AgreeWithFloat64) {
  const Row& of_table = row(GetParam());
  for (const DType type : types)
    for (const int64_t cols : {4096, 4097, 8192, 16384 + 100}) {
      const Setting setting = {type, 3, cols, test_seed()};
      SCOPED_TRACE(describe(of_table, setting));
      const Case test_case = of_table.build(setting);
      const Values before = random_values(test_case, test_seed());
      const Expected reference = expected(test_case, before);
      for (const std::string& level : cpu_levels()) {
        const CpuLevel scope(level);
        CpuDevice device(1);
        EXPECT_TRUE(
            agrees(test_case, reference, values_of(test_case, run(device, test_case, before))))
            << level;
      }
    }
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
  everywhere([cache](const Case& test_case, const Values& before) {
    for (const std::string& level : cpu_levels()) {
      const CpuLevel scope(level);
      CpuDevice device(1);
      for (const int64_t shift : {0, 1}) {
        const Memory kept = run(device, test_case, before, {.shift = shift});
        set_last_level_cache_bytes(0);
        const Memory past = run(device, test_case, before, {.shift = shift});
        set_last_level_cache_bytes(cache);
        EXPECT_EQ(kept, past) << level << ", " << shift << " elements off the boundary";
      }
    }
  });
}

TEST_P(OnTheCpu, IsTheSameInPlace) {
  if (row_.build({DType::f32, 1, 1}).aliases.empty()) return;
  everywhere([](const Case& test_case, const Values& before) {
    for (const std::string& level : cpu_levels()) {
      const CpuLevel scope(level);
      CpuDevice device(1);
      Memory apart = run(device, test_case, before);
      const Memory shared = run(device, test_case, before, {.share_aliases = true});
      for (const auto& [output, input] : test_case.aliases) apart[input] = apart[output];
      EXPECT_EQ(apart, shared) << level;
    }
  });
}

/// Large enough that every thread has something to do.
TEST_P(OnTheCpu, HasTheSameBitsForAnyNumberOfThreads) {
  if (row_.name.starts_with("gemm") && !choose_instructions().starts_with("avx512"))
    GTEST_SKIP() << "without AVX-512 oneDNN adds up in an order that depends on its threads";
  for (const DType type : types) {
    const Setting setting = {type, 301, 517, test_seed()};
    SCOPED_TRACE(describe(row_, setting));
    const Case test_case = row_.build(setting);
    const Values before = random_values(test_case, test_seed());
    CpuDevice one(1), two(2), three(3);
    const Memory alone = run(one, test_case, before);
    EXPECT_EQ(alone, run(two, test_case, before)) << "2 threads";
    EXPECT_EQ(alone, run(three, test_case, before)) << "3 threads";
  }
}

std::vector<std::string> all_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows()) names.push_back(candidate.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, OnTheCpu, ::testing::ValuesIn(all_rows()), test_name);

}  // namespace
}  // namespace frugal::kernels::table
