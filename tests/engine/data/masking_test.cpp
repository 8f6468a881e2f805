// What the masked-token objective hides: how often, where, and that no split of a batch changes it.
#include "engine/data/masking.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <random>
#include <set>

#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using testing::small_bert;
using ::testing::ThrowsMessage;

constexpr int64_t bytes_there_are = 256;
constexpr int32_t not_counted = -100;

RunConfig byte_bert() {
  RunConfig c = small_bert();
  c.model.vocabulary = bytes_there_are + 8;
  c.micro_batch = 8;
  return c;
}

std::string random_text(int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int64_t i = 0; i < size; ++i) text += static_cast<char>(random());
  return text;
}

/// Accepts `count` of `all` for an event of this probability, but once in 10^9 times: six standard
/// deviations.
void expect_binomial(double count, double all, double probability, const char* what) {
  const double deviation = std::sqrt(all * probability * (1 - probability));
  EXPECT_NEAR(count, all * probability, 6 * deviation) << what << " of " << all;
}

TEST(Masking, ChoosesAndHidesAsOftenAsThePaperSays) {
  RunConfig c = byte_bert();
  c.micro_batch = 500;
  c.seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(c.seed));
  const auto size = static_cast<size_t>(c.model.sequence * c.micro_batch);
  constexpr int32_t original = 77;
  Batch batch(2, {std::vector<int32_t>(size, original), std::vector<int32_t>(size)});
  masking::apply(batch, c, {c.seed, 3}, bytes_there_are);
  double chosen = 0, masked = 0, kept = 0, replaced = 0, sum = 0;
  for (const MicroBatch& micro : batch)
    for (size_t i = 0; i < size; ++i) {
      const int32_t token = micro.tokens[i];
      ASSERT_TRUE(micro.labels[i] == original || micro.labels[i] == not_counted);
      if (micro.labels[i] == not_counted) {
        ASSERT_EQ(token, original);
        continue;
      }
      ++chosen;
      masked += token == masking::token(c.model);
      kept += token == original;
      if (token == original || token == masking::token(c.model)) continue;
      ASSERT_TRUE(token >= 0 && token < bytes_there_are) << token;
      ++replaced;
      sum += token;
    }
  EXPECT_EQ(chosen, static_cast<double>(counted_labels(batch)));
  constexpr double same = 0.1 / bytes_there_are;  // of the random tokens some are the original
  expect_binomial(chosen, 2 * static_cast<double>(size), 0.15, "chosen");
  expect_binomial(masked, chosen, 0.8, "masked");
  expect_binomial(replaced, chosen, 0.1 - same, "replaced");
  expect_binomial(kept, chosen, 0.1 + same, "kept");
  const double deviation = 256 / std::sqrt(12 * replaced);
  EXPECT_NEAR(sum / replaced, 127.5, 6 * deviation) << "mean of the random tokens";
}

/// Sequence by sequence, [global batch][s].
struct Sequences {
  std::vector<std::vector<int32_t>> tokens, labels;
  bool operator==(const Sequences&) const = default;
};

Sequences sequences_of(const Batch& batch, const RunConfig& c) {
  Sequences all;
  const auto b = static_cast<size_t>(c.micro_batch);
  for (const MicroBatch& micro : batch)
    for (size_t column = 0; column < b; ++column) {
      all.tokens.emplace_back();
      all.labels.emplace_back();
      for (size_t i = column; i < micro.tokens.size(); i += b) {
        all.tokens.back().push_back(micro.tokens[i]);
        all.labels.back().push_back(micro.labels[i]);
      }
    }
  return all;
}

TEST(Masking, IsTheSameHoweverABatchIsDivided) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string bytes = random_text(20000, seed);
  for (const Objective objective : {Objective::masked_token, Objective::next_token}) {
    const auto batches_of = [&](int64_t micro_batch, int64_t replicas, int tensor_parallel) {
      RunConfig c = byte_bert();
      c.model.objective = objective;
      c.seed = seed;
      c.micro_batch = micro_batch;
      c.data_parallel = static_cast<int>(replicas);
      c.microbatches = 8 / micro_batch / replicas;
      c.tensor_parallel = tensor_parallel;
      const Text text(bytes, c);
      return std::array{sequences_of(random_batch(c, 5), c),
                        sequences_of(text.training_batch(5), c),
                        sequences_of(text.held_out_batch(8 / micro_batch), c)};
    };
    const auto whole = batches_of(8, 1, 1);
    ASSERT_EQ(whole.front().tokens.size(), 8U);
    EXPECT_EQ(std::set(whole[0].tokens.begin(), whole[0].tokens.end()).size(), 8U);
    EXPECT_EQ(batches_of(1, 1, 1), whole);
    EXPECT_EQ(batches_of(2, 1, 4), whole);
    EXPECT_EQ(batches_of(4, 1, 2), whole);
    EXPECT_EQ(batches_of(1, 4, 1), whole);
    EXPECT_EQ(batches_of(4, 2, 1), whole);
  }
}

TEST(Masking, DependsOnSeedAndStepButNotForHeldOutText) {
  RunConfig c = byte_bert();
  const std::string bytes(20000, 'a');
  const auto labels = [&](int64_t step) { return Text(bytes, c).training_batch(step)[0].labels; };
  const auto held_out = [&] { return Text(bytes, c).held_out_batch(1)[0].labels; };
  const auto of_one = labels(1), of_held_out = held_out();
  EXPECT_EQ(of_one, labels(1));
  EXPECT_NE(of_one, labels(2));
  EXPECT_NE(of_one, of_held_out);
  c.seed += uint64_t{1} << 32U;
  EXPECT_NE(of_one, labels(1));
  EXPECT_EQ(of_held_out, held_out());
}

TEST(Masking, NeedsAnIdThatNoByteHas) {
  RunConfig c = byte_bert();
  const std::string bytes(20000, 'a');
  c.model.vocabulary = bytes_there_are;
  EXPECT_THAT([&] { Text(bytes, c); }, ThrowsMessage<InputError>(HasSubstr("at least 257")));
  c.model.objective = Objective::next_token;
  EXPECT_NO_THROW(Text(bytes, c));
  c.model.objective = Objective::masked_token;
  c.model.vocabulary = bytes_there_are + 1;
  EXPECT_NO_THROW(Text(bytes, c));
  c.model.vocabulary = 1;
  EXPECT_THAT([&] { c.validate(); }, ThrowsMessage<InputError>(HasSubstr("mask token")));
}

TEST(Masking, HidesRandomTokensToo) {
  const RunConfig c = small_bert();
  for (int step = 0; step < 20; ++step)
    for (const MicroBatch& micro : random_batch(c, step))
      for (size_t i = 0; i < micro.labels.size(); ++i) {
        ASSERT_NE(micro.labels[i], masking::token(c.model));
        ASSERT_TRUE(micro.labels[i] != not_counted || micro.tokens[i] != masking::token(c.model));
      }
}

}  // namespace
}  // namespace frugal::engine
