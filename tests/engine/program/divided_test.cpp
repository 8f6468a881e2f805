#include <gtest/gtest.h>

#include "tests/engine/program/support.h"

// What a program has whole of what replicas divide, in bytes; and that nothing else is computed.
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
  const auto cluster = make_virtual_cluster(c, find_machine("h200-hgx"));
  Trainer trainer(*cluster, c, {.optimizer = {.clip = 0}, .steps = 1});
  (void)trainer.step(Batch(static_cast<size_t>(c.batch_microbatches())));
  return cluster->rank(0).ledger.peak(Kind::communication);
}

/// Of which the tables have nearly all weights.
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
}

TEST(DividedWeights, OutsideTheLayersGoBeforeTheirGradientsAreCopied) {
  const RunConfig llama = with_large_tables();
  expect_nearly(whole(divided(llama, "outer-weights-stay+copied-unit-gradients")),
                2 * tables(llama));
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

/// A step's losses and norm.
std::vector<double> numbers_of(const RunConfig& c) {
  const auto cluster = make_cpu_cluster(c, 2);
  Trainer trainer(*cluster, c, {.optimizer = {.clip = 0.5}, .steps = 2});
  std::vector<double> all;
  for (int i = 0; i < 2; ++i) {
    const StepResult step = trainer.step(random_batch(c, i));
    all.insert(all.end(), {step.loss, step.gradient_norm});
  }
  (void)trainer.snapshot(random_batch(c, 2)[0]);
  all.push_back(trainer.step(random_batch(c, 3)).loss);
  return all;
}

TEST(DividedWeights, AreTheSameTrainingInAnyProgram) {
  for (RunConfig c : {small_gpt(), small_llama()}) {
    c.microbatches = 2;
    const std::vector<double> expected = numbers_of(divided(c, "frugal"));
    for (const char* program :
         {"pytorch~rotary-tables", "outer-weights-stay", "layer-weights-stay",
          "copied-unit-gradients", "gradients-when-needed", "pytorch+layer-weights-stay"}) {
      SCOPED_TRACE(program);
      EXPECT_EQ(numbers_of(divided(c, program)), expected);
    }
  }
}

}  // namespace
}  // namespace frugal::engine
