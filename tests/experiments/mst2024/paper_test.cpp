#include "experiments/mst2024/paper.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/settings/models.h"

namespace frugal::experiments::mst2024 {
namespace {

/// Parameters of all kinds, as a Llama counts them: without biases but qkv's.
int64_t parameters(const ModelConfig& m) {
  const int64_t h = m.hidden, attention = h * m.qkv_size() + m.query_size() * h;
  const int64_t layer = attention + 3 * h * m.intermediate_size() + 2 * h;
  return m.layers * layer + 2 * m.vocabulary * h + h;
}

TEST(Paper, ItsModelsAreThoseThatAreKnownByName) {
  for (const auto& json : paper().models()) {
    const ModelConfig m = find_model(json.require<std::string>("name"));
    EXPECT_EQ(m.layers, json.require<int64_t>("layers")) << m.name;
    EXPECT_EQ(m.hidden, json.require<int64_t>("hidden")) << m.name;
    EXPECT_EQ(m.intermediate_size(), json.require<int64_t>("intermediate")) << m.name;
    EXPECT_EQ(m.vocabulary, json.require<int64_t>("vocab")) << m.name;
    EXPECT_EQ(m.heads, json.require<int64_t>("heads")) << m.name;
    EXPECT_EQ(m.key_value_heads(), json.require<int64_t>("kv_heads")) << m.name;
    EXPECT_EQ(m.head_size(), json.require<int64_t>("head_dim")) << m.name;
    if (json.has("parameters")) {
      EXPECT_EQ(parameters(m), json.require<int64_t>("parameters")) << m.name;
    }
  }
  EXPECT_EQ(paper().models().size(), 5U);
}

TEST(Paper, MiniSequencesFollowItsRule) {
  const RunConfig run = training_config("llama3-8b", mini_sequence, 60000);
  EXPECT_EQ(run.mlp_mini_sequences(), 15);  // ⌈60000 / 4096⌉
  EXPECT_EQ(run.head_mini_sequences(), 32);
  EXPECT_EQ(training_config("llama3-8b", mini_sequence, 4095).mlp_mini_sequences(), 1);
  EXPECT_EQ(training_config("llama3-8b", recomputation, 60000).mlp_mini_sequences(), 1);
}

TEST(Paper, CellsAreNamedOnce) {
  std::set<std::tuple<std::string, std::string, std::string>> names;
  for (const PaperCell& cell : paper().cells()) {
    EXPECT_TRUE(names.emplace(cell.artifact, cell.row, cell.column).second)
        << cell.artifact << " " << cell.row << " " << cell.column;
    EXPECT_FALSE(cell.unit.empty());
  }
  EXPECT_EQ(paper().contradictions().size(), 5U);
}

}  // namespace
}  // namespace frugal::experiments::mst2024
