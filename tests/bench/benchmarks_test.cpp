#include "bench/benchmarks.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace frugal::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

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

/// Those whose rows end somewhere are as wide as models and vocabularies, others once.
TEST(Benchmarks, MemoryBoundOperationsAreAsWideAsInModels) {
  std::map<std::string, std::vector<std::string>> widths;
  for (const Case& c : cases_of(memory_bound(), "virtual:h100-dgx", "*/frugal")) {
    const auto& axes = std::get<workload::Benchmark>(c.workload).axes;
    if (axes.at("by") == "frugal")
      widths[axes.at("type") + " " + axes.at("operation")].push_back(axes.at("width"));
  }
  EXPECT_THAT(widths.at("bf16 layer-norm"), ElementsAre("768", "1600", "4096", "6144"));
  EXPECT_THAT(widths.at("bf16 cross-entropy/at-once"), ElementsAre("50304", "128256"));
  EXPECT_THAT(widths.at("f32 cross-entropy/at-once"), ElementsAre("50304"));
  for (const char* once : {"bf16 gelu", "bf16 random-normal", "f32 layer-norm"})
    EXPECT_THAT(widths.at(once), ElementsAre("4096")) << once;
}

/// A processor's products are small and beside oneDNN's; a GPU's are those of models.
TEST(Benchmarks, ProductsAreOfModelsThatTrainThere) {
  const auto ids = [](const std::string& on, const std::string& glob) {
    std::vector<std::string> found;
    for (const Case& c : cases_of(gemm(), on, glob)) found.push_back(c.id);
    return found;
  };
  EXPECT_THAT(ids("cpu", "f32/mlp-up/forward/*"),
              ElementsAre("f32/mlp-up/forward/frugal", "f32/mlp-up/forward/oneDNN"));
  EXPECT_THAT(ids("virtual:h100-dgx", "f32/22B/mlp-up/*"),
              ElementsAre("f32/22B/mlp-up/8192x6144x24576/forward/frugal",
                          "f32/22B/mlp-up/8192x6144x24576/input-gradient/frugal",
                          "f32/22B/mlp-up/8192x6144x24576/weight-gradient/frugal",
                          "f32/22B/mlp-up/8192x6144x24576/first-weight-gradient/frugal"));
  for (const Case& c : cases_of(gemm(), "cpu", "")) EXPECT_EQ(c.id.find("22B"), std::string::npos);
}

}  // namespace
}  // namespace frugal::bench
