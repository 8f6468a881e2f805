#include <gtest/gtest.h>

#include "tests/engine/program/support.h"

// What a program has whole of what replicas divide, in bytes.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::small_llama;

RunConfig divided(RunConfig c, const std::string& program) {
  c.data_parallel = 2;
  c.shard = Shard::weights;
  c.program = find_program(program);
  return c;
}

/// The most bytes of weights and gradients that are whole.
int64_t whole(const RunConfig& c) {
  return testing::counted_steps(c)->rank(0).ledger.peak(Kind::communication);
}

/// A model whose tables have nearly all weights.
RunConfig with_large_tables() {
  RunConfig llama = small_llama();
  llama.model.vocabulary = 1 << 14;
  return llama;
}

/// Bytes of both tables of it.
int64_t tables(const RunConfig& c) { return int64_t{2} * 4 * c.model.vocabulary * c.model.hidden; }

void expect_nearly(int64_t value, int64_t expected) {
  EXPECT_NEAR(static_cast<double>(value), static_cast<double>(expected), 0.05 * expected);
}

TEST(DividedWeights, OutsideTheLayersAreWholeTogetherWithTheirGradients) {
  const RunConfig llama = with_large_tables();
  expect_nearly(whole(divided(llama, "frugal")), tables(llama));  // one, and its gradient
  expect_nearly(whole(divided(llama, "outer-weights-stay")), 2 * tables(llama));
  expect_nearly(whole(divided(llama, "outer-weights-stay+copied-unit-gradients")),
                2 * tables(llama));  // which go before they are copied
}

/// While the layers before are computed, there are two layers' weights and gradients, and a rank's
/// part of a sum that waits to be added.
TEST(DividedWeights, AddsSumsOfGradientsAtOnce) {
  RunConfig gpt = small_gpt();
  gpt.model.layers = 8;
  gpt.model.vocabulary = gpt.model.sequence = 8;
  gpt.microbatches = 2;
  const int64_t layer = int64_t{4} * 12 * gpt.model.hidden * gpt.model.hidden;
  expect_nearly(whole(divided(gpt, "frugal")), 4 * layer + layer / 2);
  expect_nearly(whole(divided(gpt, "copied-unit-gradients")), 4 * layer);
}

TEST(DividedWeights, OfALayerStayUntilItsBackwardPass) {
  RunConfig gpt = small_gpt();
  gpt.model.layers = 16;
  gpt.model.vocabulary = gpt.model.sequence = 8;
  const int64_t layer = int64_t{4} * 12 * gpt.model.hidden * gpt.model.hidden;
  expect_nearly(whole(divided(gpt, "layer-weights-stay")), (16 + 1) * layer);
  EXPECT_LT(whole(divided(gpt, "frugal")), 5 * layer);
}

TEST(DividedWeights, HaveGradientsWhenTheFirstSumIsThere) {
  RunConfig gpt = divided(small_gpt(), "gradients-when-needed");
  const auto most = [](const RunConfig& c, int64_t microbatches) {
    RunConfig of = c;
    of.microbatches = microbatches;
    return testing::bytes_of(of).peak;
  };
  const RunConfig usual = divided(small_gpt(), "frugal");
  EXPECT_LT(most(gpt, 1), most(usual, 1));
  EXPECT_EQ(most(gpt, 2), most(usual, 2));
}

}  // namespace
}  // namespace frugal::engine
