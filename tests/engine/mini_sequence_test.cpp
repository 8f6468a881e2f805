#include "engine/model/mini_sequence.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/data/single_batch.h"
#include "engine/model/mlp.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// A model that computes in parts is the model: the same loss, logits and gradients as all at once,
// whatever the parts and the labels.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

struct Parts {
  int64_t mlp = 1, head = 1, tiles = 1;
};

RunConfig with(RunConfig c, const Parts& parts) {
  c.mlp_chunks = parts.mlp;
  c.head_chunks = parts.head;
  c.head_tiles = parts.tiles;
  return c;
}

/// Labels that count unevenly: none in the first rows, so that parts have no valid label, all of
/// some, and a few of the others.
MicroBatch uneven_batch(const RunConfig& config) {
  MicroBatch batch = random_batch(config, 0)[0];
  for (size_t i = 0; i < batch.labels.size(); ++i)
    if (i < batch.labels.size() / 3 || (i > batch.labels.size() / 2 && i % 5 != 0))
      batch.labels[i] = CrossEntropy::ignored_label;
  return batch;
}

RunConfig by_the_rule() {
  RunConfig c = small_llama();
  c.model.hidden = 32;
  c.model.sequence = 72;
  c.model.vocabulary = 80;
  return with(c, {RunConfig::by_rule, RunConfig::by_rule, 1});
}

/// Numbers of parts that divide 32 tokens, that do not, and more than there are tokens; tiles that
/// divide a vocabulary of 64, that do not, and more than half of it; the paper's rule.
TEST(MiniSequence, AModelInPartsIsTheWholeModel) {
  RunConfig tensor = small_llama();
  tensor.tensor_parallel = 2;
  tensor.recompute = Recompute::full;
  EXPECT_EQ(by_the_rule().mlp_mini_sequences(), 3);
  EXPECT_EQ(by_the_rule().head_mini_sequences(), 3);
  for (RunConfig parts : {with(small_gpt(), {2, 5, 1}), with(small_llama(), {100, 100, 43}),
                          with(small_gemma(), {1, 3, 7}), with(tensor, {3, 5, 4}), by_the_rule()}) {
    parts.type = DType::f64;
    RunConfig whole = with(parts, {});
    whole.recompute = Recompute::none;
    whole.tensor_parallel = 1;
    const MicroBatch batch = uneven_batch(whole);
    const auto error = worst_error(snapshot_of(parts, batch), snapshot_of(whole, batch));
    EXPECT_LT(error.value, 1e-12) << fmt::format("{} of the MLP, {} of the head: {}",
                                                 parts.mlp_chunks, parts.head_chunks, error.tensor);
  }
}

TEST(MiniSequence, TheLastPartTakesTheRemainder) {
  EXPECT_EQ(mini_sequence(32, 5, 0).count, 6);
  EXPECT_EQ(mini_sequence(32, 5, 4).begin, 24);
  EXPECT_EQ(mini_sequence(32, 5, 4).count, 8);
}

TEST(MiniSequence, BalancedPartsFollowEachOtherAndNoneIsLargerThanItMustBe) {
  for (const int64_t rows : {1, 7, 64, 256})
    for (int64_t parts = 1; parts <= rows; ++parts) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const MiniSequence part = balanced_part(rows, parts, i);
        ASSERT_EQ(part.begin, next) << rows << " rows, part " << i << " of " << parts;
        ASSERT_GE(part.count, rows / parts) << rows << " rows, part " << i << " of " << parts;
        ASSERT_LE(part.count, (rows + parts - 1) / parts)
            << rows << " rows, part " << i << " of " << parts;
        next = part.begin + part.count;
      }
      ASSERT_EQ(next, rows) << parts << " parts";
    }
}

TEST(MiniSequence, RuleOfThePaper) {
  RunConfig c = small_llama();
  c.mlp_chunks = c.head_chunks = RunConfig::by_rule;
  c.model.sequence = 200;
  EXPECT_EQ(c.mlp_mini_sequences(), 4);   // ⌈200 / 64⌉
  EXPECT_EQ(c.head_mini_sequences(), 1);  // ⌈64 / 64⌉
  c.model.vocabulary = 128256;
  c.model.hidden = 4096;
  EXPECT_EQ(c.mlp_mini_sequences(), 1);    // unsplit below h tokens
  EXPECT_EQ(c.head_mini_sequences(), 32);  // of Llama 3
}

TEST(MiniSequence, NoTileOfTheVocabularyIsLargerThanItMustBe) {
  RunConfig c = small_llama();
  for (const int64_t tiles : {5, 7, 43}) {
    c.head_tiles = tiles;
    const auto cluster = make_cpu_cluster(c, 2);
    const MicroBatch batch = random_batch(c, 0)[0];
    int64_t widest = 0, seen = 0;
    const output_layer::OnLogits see = [&](const Pass& /*of*/, const View& logits, int64_t /*row*/,
                                           int64_t /*column*/) {
      widest = std::max(widest, logits.shape[1]);
      ++seen;
    };
    cluster->run([&](Rank& rank) {
      const Gpt model(rank);
      const Pass pass(rank);
      Gpt::Saved saved;
      (void)model.forward(pass,
                          {.hidden = {},
                           .tokens = local_integers(rank, batch.tokens),
                           .target = {local_integers(rank, batch.labels), 1, &see}},
                          saved);
    });
    EXPECT_EQ(seen, tiles);
    EXPECT_EQ(widest, (c.model.vocabulary + tiles - 1) / tiles) << tiles << " tiles";
  }
}

FRUGAL_LEFT_OUT(thread, "MiniSequence.TheHeadsGradientOfTheWeightsTypeIsRoundedOnce",
                "one rank: one thread");
/// The head's, of the weights' type: the sum over parts is made in float32 nevertheless, and
/// rounded to half a unit in the last of bf16's 8 bits.
TEST(MiniSequence, TheHeadsGradientOfTheWeightsTypeIsRoundedOnce) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  c.head_chunks = 7;
  const MicroBatch batch = uneven_batch(c);
  const char* name = "gradient/output.token";
  const HostTensor wide = snapshot_of(c, batch).at(name);
  c.precision = Precision::pure;
  const HostTensor narrow = snapshot_of(c, batch).at(name);
  for (size_t i = 0; i < wide.values.size(); ++i)
    ASSERT_NEAR(narrow.values[i], wide.values[i], std::abs(wide.values[i]) * 0x1p-8);
}

FRUGAL_LEFT_OUT(thread, "MiniSequence.TheHeadsGradientOfTheWeightsTypeIsThatOfAllMicrobatches",
                "one rank: one thread");
/// Added to what the microbatches before have left.
TEST(MiniSequence, TheHeadsGradientOfTheWeightsTypeIsThatOfAllMicrobatches) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  c.precision = Precision::pure;
  c.microbatches = 2;
  const auto norm = [&c](int64_t parts) {
    c.head_chunks = parts;
    const auto cluster = make_cpu_cluster(c, 2);
    return Trainer(*cluster, c, {}).step(random_batch(c, 0)).gradient_norm;
  };
  EXPECT_NEAR(norm(7) / norm(1), 1, 0x1p-7);
}

/// Calls `use` with an MLP of some weights alone on a rank, and with x and dy [s, b, h].
void with_mlp(const RunConfig& config,
              const std::function<void(Rank&, Mlp&, const Tensor& x, const Tensor& dy)>& use) {
  const auto cluster = make_cpu_cluster(config, 2);
  cluster->run([&](Rank& rank) {
    Mlp mlp(rank, "mlp", 0);
    const auto random = [&](uint32_t site) {
      const Tensor x =
          rank.allocate({config.model.sequence, config.micro_batch, config.model.hidden});
      rank.run(RandomNormal{x, 1, {config.seed, site, 0}, {}});
      return x;
    };
    use(rank, mlp, random(1), random(2));
  });
}

void add_gradients(Rank& rank, Mlp& mlp, const Tensor& x, const Tensor& dy) {
  const Pass pass(rank);
  Mlp::Saved saved;
  (void)mlp.forward(pass, x, {}, saved);
  (void)mlp.backward(pass, dy, std::move(saved), [&] { return x; });
}

std::vector<float> as_floats(Rank& rank, const View& x) {
  const Tensor wide = rank.allocate(DType::f32, x.shape);
  rank.run(Convert{x, wide});
  std::vector<float> values(static_cast<size_t>(x.size()));
  rank.device.copy_to_host(values.data(), wide);
  return values;
}

FRUGAL_LEFT_OUT(thread, "MiniSequence.AnMlpsGradientOfTheWeightsTypeIsRoundedForEachPart",
                "one rank: one thread");
/// The MLP's, of the weights' type: each part is added to what the ones before it have made of it
/// (mst2024, algorithm 1).
TEST(MiniSequence, AnMlpsGradientOfTheWeightsTypeIsRoundedForEachPart) {
  constexpr int64_t parts = 4;
  RunConfig c = small_llama();
  c.type = DType::bf16;
  std::vector<std::vector<float>> part_by_part, at_once, actual;
  with_mlp(c, [&](Rank& rank, Mlp& mlp, const Tensor& x, const Tensor& dy) {
    for (Parameter* p : mlp.parameters()) {
      const Tensor narrow = rank.allocate(DType::bf16, p->view().shape);
      const Tensor wide = rank.allocate(DType::f32, p->view().shape);
      for (const Tensor& sum : {narrow, wide}) rank.run(Fill{sum, 0});
      for (int64_t i = 0; i < parts; ++i) {
        const MiniSequence part = mini_sequence(c.model.sequence, parts, i);
        rank.run(Fill{p->grad(), 0});
        add_gradients(rank, mlp, part.of(x), part.of(dy));
        for (const Tensor& sum : {narrow, wide}) rank.run(Copy{p->grad(), sum, true});
      }
      part_by_part.push_back(as_floats(rank, narrow));
      rank.run(Convert{wide, narrow});
      at_once.push_back(as_floats(rank, narrow));
    }
  });
  c.precision = Precision::pure;
  c.mlp_chunks = parts;
  with_mlp(c, [&](Rank& rank, Mlp& mlp, const Tensor& x, const Tensor& dy) {
    add_gradients(rank, mlp, x, dy);
    for (const Parameter* p : mlp.parameters()) actual.push_back(as_floats(rank, p->grad()));
  });
  EXPECT_TRUE(actual == part_by_part);
  EXPECT_FALSE(actual == at_once);
}

}  // namespace
}  // namespace frugal::engine
