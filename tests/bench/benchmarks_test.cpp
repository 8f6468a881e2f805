#include "bench/benchmarks.h"

#include <gmock/gmock.h>

#include <set>

namespace frugal::bench {
namespace {

using ::testing::Contains;

/// The values of a benchmark's axis; none where it has no such axis.
std::vector<std::string> values_of(const Benchmark& benchmark, const std::string& axis) {
  for (const BenchmarkAxis& other : benchmark.axes)
    if (other.name == axis) return other.values;
  return {};
}

TEST(Benchmarks, EachHasANameAndCasesOfItsOwn) {
  std::set<std::string> names;
  for (const Benchmark* benchmark : all_benchmarks()) {
    EXPECT_TRUE(names.insert(benchmark->name).second) << benchmark->name;
    EXPECT_FALSE(benchmark->title.empty()) << benchmark->name;
    EXPECT_FALSE(benchmark->columns.empty()) << benchmark->name;
    std::set<std::string> ids;
    for (const Case& c : cases_of(*benchmark, "", "")) EXPECT_TRUE(ids.insert(c.id).second) << c.id;
    EXPECT_FALSE(ids.empty()) << benchmark->name;
  }
}

TEST(Benchmarks, NameOnlyAxesAndValuesThatThereAre) {
  for (const Benchmark* benchmark : all_benchmarks()) {
    for (const std::string& axis : benchmark->by_turns)
      EXPECT_FALSE(values_of(*benchmark, axis).empty()) << benchmark->name << " " << axis;
    if (!benchmark->reference) continue;
    for (const std::string& value : benchmark->reference->values)
      EXPECT_THAT(values_of(*benchmark, benchmark->reference->axis), Contains(value))
          << benchmark->name;
  }
}

}  // namespace
}  // namespace frugal::bench
