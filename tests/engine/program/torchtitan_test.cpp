#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/program/support.h"

// What torchtitan's program keeps and divides, in bytes.
namespace frugal::engine {
namespace {

using testing::as;
using testing::bytes_of;
using testing::Sizes;
using testing::small_gpt;
using testing::small_llama;
using testing::step_on;

RunConfig divided_in_bf16(RunConfig c, const std::string& program) {
  c = as(std::move(c), program);
  c.data_parallel = 2;
  c.shard = Shard::weights;
  return c;
}

/// All that a step on a machine takes and gives back.
std::vector<Ledger::Change> changes_of(const RunConfig& config, const std::string& machine) {
  const auto cluster = make_virtual_cluster(config, find_machine(machine));
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}});
  cluster->rank(0).ledger.record_timeline(true);
  (void)trainer.step(testing::empty_batch(config));
  return cluster->rank(0).ledger.timeline();
}

/// Bytes until most activations are there, when a step's only forward pass ends.
struct ForwardBytes {
  int64_t most = 0, most_whole = 0;  ///< of all, and of weights that are whole
  int64_t whole_at_end = 0;
};
ForwardBytes forward_of(const RunConfig& c) {
  ForwardBytes now, at_end;
  int64_t all = 0, whole = 0, activations = 0, most_activations = 0;
  for (const Ledger::Change& change : changes_of(c, "h200-hgx")) {
    all += change.bytes;
    if (change.kind == Kind::communication) whole += change.bytes;
    if (change.kind == Kind::activation) activations += change.bytes;
    now = {std::max(now.most, all), std::max(now.most_whole, whole), whole};
    if (activations > most_activations) at_end = now;
    most_activations = std::max(most_activations, activations);
  }
  return at_end;
}

/// A model of layers alone, nearly.
RunConfig of_layers() {
  RunConfig gpt = small_gpt();
  gpt.model.layers = 8;
  gpt.model.vocabulary = gpt.model.sequence = 8;
  return gpt;
}
/// Bytes of a layer's weights.
double layer_of(const RunConfig& c) {
  return 2.0 * 12 * static_cast<double>(c.model.hidden * c.model.hidden);
}

TEST(Torchtitan, CopiesUnitsOutOfBuffersThatStayUntilTheNextCame) {
  const RunConfig c = of_layers();
  const auto whole = [&](const std::string& program) {
    return static_cast<double>(forward_of(divided_in_bf16(c, program)).most_whole) / layer_of(c);
  };
  EXPECT_NEAR(whole("frugal"), 2, 0.15);  // one that is computed with, and one that arrives
  EXPECT_NEAR(whole("copied-unit-weights"), 3, 0.2);
}

TEST(Torchtitan, HasTheLastLayersWeightsUntilItsBackwardPass) {
  const RunConfig c = of_layers();
  const auto whole = [&](const std::string& program) {
    return forward_of(divided_in_bf16(c, program)).whole_at_end;
  };
  EXPECT_NEAR(static_cast<double>(whole("last-layer-weights-stay") - whole("frugal")) / layer_of(c),
              1, 0.1);
}

/// 4 bytes in place of 2 + 4.
TEST(Torchtitan, HasItsPartsInFloat32Alone) {
  const auto bytes = [](const std::string& program) {
    const auto cluster = testing::counted_steps(divided_in_bf16(small_llama(), program));
    const Ledger& ledger = cluster->rank(0).ledger;
    return std::pair(ledger.peak(Kind::parameter), ledger.peak(Kind::optimizer));
  };
  const auto [weights, state] = bytes("frugal");
  EXPECT_EQ(bytes("float32-parts"), std::pair(2 * weights, state - 2 * weights));
}

TEST(Torchtitan, KeepsWhatTheMlpGivesWherePartsAreComputedAgain) {
  RunConfig llama = small_llama();
  const int64_t results = llama.model.layers * 2 * Sizes(llama).hidden;
  const auto added = [&] {
    return bytes_of(as(llama, "mlp-results")).layer - bytes_of(as(llama, "frugal")).layer;
  };
  EXPECT_EQ(added(), 0);
  llama.recompute = Recompute::selective;
  llama.recompute_modules = {LayerModule::norm};
  EXPECT_EQ(added(), results);
}

/// A norm's input in 4 bytes in place of 2, and what it gives before its gain in 2.
TEST(Torchtitan, HasNormsInFloat32WhereTheyAreKept) {
  RunConfig llama = small_llama();
  const Sizes n(llama);
  const auto added = [&](const std::string& program) {
    return bytes_of(as(llama, program)).activation - bytes_of(as(llama, "frugal")).activation;
  };
  EXPECT_EQ(added("float32-final-norm"), 4 * n.hidden);
  EXPECT_EQ(added("float32-norms+float32-final-norm"), added("float32-norms"));
  llama.recompute = Recompute::selective;
  llama.recompute_modules = {LayerModule::norm};
  EXPECT_EQ(added("float32-norms"), 4 * n.hidden) << "of the one behind the layers";
}

/// Tensors of so many bytes that a step makes beside its technique's.
int64_t made_by(const RunConfig& config, int64_t bytes) {
  return std::ranges::count_if(changes_of(config, "a100-selene"),
                               [&](const Ledger::Change& change) {
                                 return change.kind == Kind::workspace && change.bytes == bytes;
                               });
}

/// A norm's operations, of 2 bytes an element: x.float() 3, pow 4, mean 2, a product 4, type_as 3
/// and the gain 2, twice; backward the gain's 2 + 3 + 1, type_as 3, the product's 4 + 6 + 2, mean
/// 2, pow's 4 + 4 + 6, a sum of two 6 and x.float() 3. A fused norm reads and writes, and reads two
/// and writes. From the layer's first to its last gradient two norms have an input in 4 bytes and a
/// result in 2.
TEST(Torchtitan, MakesNormsAgainInFloat32) {
  RunConfig llama = small_llama();
  llama.model.sequence = 1 << 17;
  llama.model.vocabulary = 8;
  llama.recompute = Recompute::selective;
  llama.recompute_modules = {LayerModule::norm};
  const Machine a100 = find_machine("a100-selene");
  const double x = 2 * static_cast<double>(Sizes(llama).hidden);
  const double forward = 3 + 4 + 2 + 4 + 3 + 2 - 2;
  const double backward = 6 + 3 + 12 + 2 + 14 + 6 + 3 - 3;
  const double bytes = 2 * static_cast<double>(llama.model.layers) * (2 * forward + backward) * x;
  const double moved = bytes / (a100.memory_bandwidth * a100.memory_fraction);
  for (const char* program : {"float32-final-norm", "early-releases+float32-final-norm"}) {
    const double more = step_on("a100-selene", as(llama, program + std::string("+float32-norms"))) -
                        step_on("a100-selene", as(llama, program));
    EXPECT_GT(more, moved) << program;
    EXPECT_LT(more, 1.03 * moved) << program << ": launches";
  }
  for (const int64_t size : {4, 2}) {
    const int64_t tensor = size * Sizes(llama).hidden;
    EXPECT_EQ(made_by(as(llama, "float32-norms+float32-final-norm"), tensor) -
                  made_by(as(llama, "float32-final-norm"), tensor),
              2 * llama.model.layers);
  }
}

/// A kernel moves its bytes also where the gradient that it is about is released at the same event.
TEST(Torchtitan, ReleasesAGradientBehindItsKernels) {
  RunConfig llama = small_llama();
  llama.model.sequence = 8192;
  const auto more = [&](const std::string& program) {
    return step_on("a100-selene", as(llama, program + "+layer-gradient-read*100")) -
           step_on("a100-selene", as(llama, program));
  };
  EXPECT_NEAR(more("early-releases"), more("early-stop"), 1e-3 * more("early-stop"));
}

TEST(Torchtitan, DiscardsAtOnceWhatIsComputedAgain) {
  RunConfig llama = small_llama();
  llama.recompute = Recompute::full;
  llama.model.vocabulary = 8;
  EXPECT_LT(forward_of(as(llama, "discarded-at-once")).most, forward_of(as(llama, "frugal")).most);
}

}  // namespace
}  // namespace frugal::engine
