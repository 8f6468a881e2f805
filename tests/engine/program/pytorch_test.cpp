#include <gtest/gtest.h>

#include "tests/engine/program/support.h"

// What programs/pytorch.json takes and keeps beside, in bytes.
namespace frugal::engine {
namespace {

using testing::as;
using testing::bytes_of;
using testing::peak_of;
using testing::Sizes;
using testing::small_bert;
using testing::small_gpt;
using testing::small_llama;

/// Tensors that a forward pass keeps in modules of a kind, after a step.
Held kept_by(Part part, const RunConfig& config) {
  const auto cluster = testing::counted_steps(config);
  return cluster->rank(0).ledger.kept_per_part().value().at(static_cast<size_t>(part));
}

int64_t tokens_of(const RunConfig& c) { return c.model.sequence * c.micro_batch; }

/// Elements of the products of queries and keys of a layer.
int64_t scores_of(const RunConfig& c) { return tokens_of(c) * c.model.sequence * c.model.heads; }

/// Tensors as autograd saves them: norms their input and two statistics; attention its input,
/// queries with keys and values, probabilities, these with dropout and its mask, the context, and
/// the output's mask; an MLP its input, GELU's input and result, and the mask.
TEST(PyTorch, KeepsTheseTensorsInEachModule) {
  const RunConfig gpt = as(small_gpt(), "pytorch");
  const Sizes n(gpt);
  const int64_t norms = 2 * n.layers + 1, hidden = n.hidden;
  EXPECT_EQ(kept_by(Part::norm, gpt),
            (Held{3 * norms, norms * (2 * hidden + 2 * 4 * tokens_of(gpt))}));
  EXPECT_EQ(
      kept_by(Part::attention, gpt),
      (Held{7 * n.layers, n.layers * ((2 + 6 + 2 + 1) * hidden + (2 + 2 + 1) * scores_of(gpt))}));
  EXPECT_EQ(kept_by(Part::mlp, gpt),
            (Held{4 * n.layers, n.layers * ((2 + 1) * hidden + (2 + 2) * n.inner)}));
  EXPECT_EQ(kept_by(Part::embedding, gpt), (Held{1, hidden}));
  EXPECT_EQ(kept_by(Part::head, gpt), (Held{2, 2 * hidden + 2 * n.logits}));
  EXPECT_EQ(kept_by(Part::model, gpt), (Held{1, gpt.model.sequence * gpt.model.sequence}));
}

TEST(PyTorch, KeepsTheInputOfALayerThatIsComputedAgain) {
  RunConfig gpt = as(small_gpt(), "pytorch");
  gpt.recompute = Recompute::full;
  const Sizes n(gpt);
  EXPECT_EQ(kept_by(Part::layer, gpt), (Held{n.layers, n.layers * 2 * n.hidden}));
  EXPECT_EQ(kept_by(Part::attention, gpt), Held{});
}

TEST(PyTorch, KeepsOneByteForWhatDropoutDrops) {
  const RunConfig gpt = small_gpt();
  const Sizes n(gpt);
  EXPECT_EQ(bytes_of(as(gpt, "dropout-masks")).layer - bytes_of(as(gpt, "frugal")).layer,
            n.layers * (2 * n.hidden + scores_of(gpt)));
}

TEST(PyTorch, KeepsNoStatisticsOfLogProbabilities) {
  const RunConfig gpt = small_gpt();
  const Held with = kept_by(Part::head, as(gpt, "log-probabilities"));
  const Held without = kept_by(Part::head, as(gpt, "log-probabilities+unkept-statistics"));
  EXPECT_EQ(with.tensors - without.tensors, 1);
  EXPECT_EQ(with.bytes - without.bytes, 3 * 4 * tokens_of(gpt));
}

TEST(PyTorch, KeepsAMaskOfCausalScoresAlone) {
  const auto more = [](const RunConfig& c) {
    return kept_by(Part::model, as(c, "score-mask")).bytes;
  };
  RunConfig gpt = small_gpt();
  EXPECT_EQ(more(gpt), gpt.model.sequence * gpt.model.sequence);
  EXPECT_EQ(more(small_bert()), 0);
  gpt.attention = AttentionKind::fused;
  EXPECT_EQ(more(gpt), 0);
}

TEST(PyTorch, KeepsCosinesAndSinesOfAllPositions) {
  const RunConfig llama = small_llama();
  EXPECT_EQ(kept_by(Part::model, as(llama, "rotary-tables")),
            (Held{2, 2 * 2 * llama.model.sequence * llama.model.head_size()}));
  EXPECT_EQ(kept_by(Part::model, as(small_gpt(), "rotary-tables")), Held{});
}

/// All gradients are there twice where they are joined, and unless they are given back early what
/// they were computed of.
TEST(PyTorch, JoinsGradientsOfQueriesKeysAndValues) {
  RunConfig llama = small_llama();
  llama.model.head_width = 256;  // heads have far more than the rest of a layer
  const int64_t all = tokens_of(llama) * llama.model.qkv_size();
  const auto peak = [&](const char* program) { return peak_of(Module::layer, as(llama, program)); };
  EXPECT_EQ(peak("joined-gradients") - peak("frugal"), 2 * all);
  EXPECT_LT(peak("joined-gradients+early-releases"), peak("joined-gradients") - 2 * all / 2);
}

/// A norm in float32 keeps a copy, and not what it is a copy of.
TEST(PyTorch, HasTheInputThatACheckpointIsComputedAgainFrom) {
  RunConfig llama = small_llama();
  llama.recompute = Recompute::full;
  llama.model.vocabulary = 8;
  llama.model.intermediate = 1024;  // the peak is in the MLP's backward pass
  const auto more = [&](const std::string& beside) {
    return bytes_of(as(llama, beside + "+recomputed-inputs")).peak -
           bytes_of(as(llama, beside)).peak;
  };
  EXPECT_EQ(more("float32-norms"), 2 * Sizes(llama).hidden);
  EXPECT_EQ(more("kept-outputs"), 0) << "the norm keeps it";
}

TEST(PyTorch, SumsBothUsesOfATiedTableBesideItsGradient) {
  RunConfig gpt = small_gpt();
  gpt.model.sequence = 4;
  gpt.micro_batch = 1;
  gpt.model.vocabulary = 1 << 14;  // at the peak there are tables alone
  const int64_t table = 2 * gpt.model.vocabulary * gpt.model.hidden;
  const int64_t more = bytes_of(as(gpt, "tied-sums")).peak - bytes_of(as(gpt, "frugal")).peak;
  EXPECT_GT(more, 2 * table - table / 4) << "less what a few logits have";
  EXPECT_LE(more, 2 * table);
  gpt.model.tied = false;
  EXPECT_EQ(bytes_of(as(gpt, "tied-sums")).peak, bytes_of(as(gpt, "frugal")).peak);
}

TEST(PyTorch, StepsWeightsOneByOne) {
  RunConfig llama = small_llama();
  llama.step_in_backward = true;
  llama.model.vocabulary = 8;
  const ModelConfig& m = llama.model;
  const int64_t up = 2 * m.intermediate_size() * m.hidden;
  const int64_t rest =
      m.intermediate_size() * m.hidden + m.hidden * (2 + m.qkv_size()) + m.query_size() * m.hidden;
  EXPECT_EQ(testing::gradients(llama, "frugal"), 4 * (up + rest));
  EXPECT_EQ(testing::gradients(llama, "stepped-one-by-one"), 4 * up);
}

/// The norm's backward pass comes after its step.
TEST(PyTorch, StepsAnOutputTableBeforeTheNormInFrontOfIt) {
  RunConfig llama = small_llama();
  llama.model.tied = false;
  llama.step_in_backward = true;
  llama.model.vocabulary = 1 << 12;
  const int64_t table = 4 * llama.model.vocabulary * llama.model.hidden;
  EXPECT_EQ(testing::gradients(llama, "frugal"), table + 4 * llama.model.hidden);
  EXPECT_EQ(testing::gradients(llama, "stepped-one-by-one"), table);
}

/// Autograd adds them up one after the other.
TEST(PyTorch, SumsGradientsOfSeparateProjectionsOneByOne) {
  RunConfig llama = small_llama();
  llama.model.hidden = 512;  // weights have more than anything else
  llama.model.intermediate = 2048;
  llama.model.vocabulary = llama.model.sequence = 8;
  llama.micro_batch = 1;
  const auto peak = [&](const char* program) { return bytes_of(as(llama, program)).peak; };
  const int64_t gate = 2 * llama.model.intermediate * llama.model.hidden;
  const int64_t less =
      peak("separate-weight-gradients") - peak("separate-weight-gradients+separate-projections");
  EXPECT_GT(less, gate - gate / 8) << "less what is beside the gradient of the way down";
  EXPECT_LE(less, gate);
}

}  // namespace
}  // namespace frugal::engine
