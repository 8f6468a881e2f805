#include "harness/measure/runs/last_words.h"

#include <gmock/gmock.h>

#include "engine/data/masking.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using testing::small_gpt;
using ::testing::ThrowsMessage;

RunConfig config_of(Objective objective) {
  RunConfig config = small_gpt();
  config.model.vocabulary = 260;
  config.model.dropout = 0;
  config.model.objective = objective;
  config.model.causal = objective == Objective::next_token;
  config.micro_batch = 2;
  config.microbatches = 2;
  return config;
}

/// Twenty words, of which four are too short, drawn by a linear congruence.
std::string drawn_text(size_t words) {
  std::string text;
  uint32_t state = 1;
  for (size_t i = 0; i < words; ++i) {
    state = state * 1664525U + 1013904223U;
    const uint32_t word = (state >> 16U) % 20;
    text += std::string(2 + word / 2, static_cast<char>('a' + word)) + (word % 5 == 0 ? ", " : " ");
  }
  return text;
}

/// Bytes of the passage that a sequence shows, without and with what is hidden.
std::string shown(const MicroBatch& micro, const RunConfig& c, int64_t column, bool labels) {
  std::string bytes;
  for (int64_t i = 0; i < c.model.sequence; ++i) {
    const auto at = static_cast<size_t>(i * c.micro_batch + column);
    const int32_t id = labels ? micro.labels[at] : micro.tokens[at];
    bytes += id < 0 ? '.' : id == masking::token(c.model) ? '?' : static_cast<char>(id);
  }
  return bytes;
}

TEST(LastWords, EndPassagesOfTheHeldOutText) {
  const std::string bytes = drawn_text(4000);
  for (const Objective objective : {Objective::next_token, Objective::masked_token}) {
    const RunConfig c = config_of(objective);
    const Text text(bytes, c);
    const LastWords words(text, c, 9);
    ASSERT_EQ(words.passages(), 10) << "whole microbatches";
    const bool masked = objective == Objective::masked_token;
    for (const MicroBatch& micro : words.batch())
      for (int64_t column = 0; column < c.micro_batch; ++column) {
        const std::string tokens = shown(micro, c, column, false);
        const std::string word = shown(micro, c, column, true);
        const std::string last = word.substr(word.find_last_of('.') + 1);
        ASSERT_GE(last.size(), 4U);
        EXPECT_EQ(last, std::string(last.size(), last[0])) << "a whole word";
        const std::string seen = masked ? tokens.substr(0, tokens.size() - last.size())
                                        : tokens.substr(0, tokens.size() - last.size() + 1);
        EXPECT_TRUE(seen.ends_with(" ")) << seen;
        // The text has it, held out, and no letter behind it.
        const size_t found = bytes.find(seen + last, static_cast<size_t>(text.training_bytes()));
        ASSERT_NE(found, std::string::npos);
        EXPECT_THAT(std::string(" ,"),
                    HasSubstr(bytes.substr(found + seen.size() + last.size(), 1)));
        EXPECT_EQ(masked, tokens.ends_with(std::string(last.size(), '?')));
      }
  }
}

TEST(LastWords, AreToldByAModelThatHasLearnedThem) {
  // So many hidden in a row are rare in training: BERT gets words that need no context.
  for (const auto& [objective, line] : {std::pair{Objective::next_token, "mene tekel upharsin "},
                                        std::pair{Objective::masked_token, "aaaa aaaaa aaaaaa "}}) {
    std::string bytes;
    while (bytes.size() < 8000) bytes += line;
    RunConfig c = config_of(objective);
    c.pipeline_parallel = 2;
    const Text text(bytes, c);
    const LastWords words(text, c, 20);
    TrainConfig train;
    train.steps = 120;
    train.optimizer.learning_rate = 1e-2;
    const auto cluster = make_cpu_cluster(c, 1, 60);
    Trainer trainer(*cluster, c, train);
    EXPECT_LT(words.evaluate(trainer).words, words.passages() / 2) << "untrained";
    for (int64_t i = 0; i < train.steps; ++i) trainer.step(text.training_batch(i));
    const LastWords::Told told = words.evaluate(trainer);
    EXPECT_EQ(told.words, words.passages()) << name_of(objective);
    EXPECT_EQ(told.letters, words.letters());
  }
}

TEST(LastWords, AreRefusedWhereTheTextHasTooFew) {
  const RunConfig c = config_of(Objective::next_token);
  const Text text(drawn_text(400), c);
  EXPECT_THAT([&] { LastWords(text, c, 4000); },
              ThrowsMessage<InputError>(HasSubstr("and 4000 are needed; ask for fewer")));
}

}  // namespace
}  // namespace frugal::harness
