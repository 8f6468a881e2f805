#include <gtest/gtest.h>

#include <array>

#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::snapshot_of;

std::vector<double> losses_of(const RunConfig& config, int steps,
                              const std::vector<Batch>& batches) {
  const auto cluster = make_cpu_cluster(config, 2);
  TrainConfig train;
  train.steps = steps;
  Trainer trainer(*cluster, config, train);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i)
    losses.push_back(trainer.step(batches[static_cast<size_t>(i) % batches.size()]).loss);
  losses.push_back(trainer.evaluate(batches[0]));
  return losses;
}

TEST(Training, TensorAndSequenceParallelismAndRecomputationLeaveLossesAsTheyWere) {
  RunConfig c = small_gpt();
  std::vector<Batch> batches;
  for (int i = 0; i < 12; ++i) batches.push_back(random_batch(c, i));
  const auto serial = losses_of(c, 12, batches);
  c.tensor_parallel = 2;
  c.sequence_parallel = true;
  c.recompute = Recompute::selective;
  const auto parallel = losses_of(c, 12, batches);
  for (size_t i = 0; i < serial.size(); ++i)
    EXPECT_NEAR(parallel[i] / serial[i], 1, 1e-5) << "step " << i;
}

TEST(Training, RepeatedRunsAreBitwiseEqual) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 4;
  c.sequence_parallel = true;
  const std::vector<Batch> batches{random_batch(c, 0)};
  EXPECT_EQ(losses_of(c, 5, batches), losses_of(c, 5, batches));
}

// Replicas and the ranks of a context-parallel group each have a part of the loss, and end in any
// order: so there are enough runs that two of them differ in it.
TEST(Training, TheOrderInWhichRanksEndIsNotInTheBits) {
  RunConfig c = small_gpt();
  c.type = DType::f64;
  c.context_parallel = 4;
  c.context = ContextKind::ulysses;
  c.attention = AttentionKind::fused;
  c.model.dropout = 0;
  c.data_parallel = 2;
  c.microbatches = 2;
  const Batch batch = random_batch(c, 0);
  const auto losses = [&] {
    std::vector<double> all = losses_of(c, 3, {batch});
    all.push_back(snapshot_of(c, batch[0]).at("loss").values[0]);
    return all;
  };
  const auto first = losses();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(losses(), first);
}

TEST(Training, LearnsABatchByHeart) {
  for (const DType type : {DType::f32, DType::bf16}) {
    RunConfig c = small_gpt();
    c.type = type;
    c.model.dropout = 0;
    const std::vector<Batch> batches{random_batch(c, 0)};
    const auto losses = losses_of(c, 60, batches);
    EXPECT_NEAR(losses.front(), std::log(64), 0.2);
    EXPECT_LT(losses.back(), 2) << name_of(type);
  }
}

/// Dropout is off, which differs from one microbatch to another.
TEST(Training, ABatchTrainsTheSameHoweverItIsCut) {
  RunConfig c = small_gpt();
  c.model.dropout = 0;
  c.type = DType::f64;
  const auto losses_of_cut = [&c](int64_t micro_batch, int64_t microbatches, int replicas) {
    c.micro_batch = micro_batch;
    c.microbatches = microbatches;
    c.data_parallel = replicas;
    std::vector<Batch> batches;
    for (int step = 0; step < 4; ++step) batches.push_back(random_batch(c, step));
    return losses_of(c, 4, batches);
  };
  const std::vector<double> at_once = losses_of_cut(4, 1, 1);
  for (const auto& [micro_batch, microbatches, replicas] :
       {std::array{1, 4, 1}, {2, 2, 1}, {2, 1, 2}, {1, 2, 2}, {1, 1, 4}}) {
    const std::vector<double> cut = losses_of_cut(micro_batch, microbatches, replicas);
    for (size_t i = 0; i < at_once.size(); ++i)
      EXPECT_NEAR(cut[i] / at_once[i], 1, 1e-9)
          << micro_batch << " x " << microbatches << " x " << replicas << ", step " << i;
  }
}

TEST(Training, IgnoredLabelsDoNotCount) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  c.model.dropout = 0;
  Batch batch = random_batch(c, 0);
  for (size_t i = 0; i < batch[0].labels.size(); i += 2) batch[0].labels[i] = -100;
  EXPECT_EQ(counted_labels(batch), 32);
  const auto cluster = make_cpu_cluster(c, 2);
  Trainer trainer(*cluster, c, {});
  const HostTensors tensors = trainer.snapshot(batch[0]);
  const HostTensor& logits = tensors.at("logits");
  double expected = 0;
  for (size_t row = 1; row < batch[0].labels.size(); row += 2) {
    double sum = 0;
    for (size_t j = 0; j < 64; ++j) sum += std::exp(logits.values[row * 64 + j]);
    expected += std::log(sum) - logits.values[row * 64 + static_cast<size_t>(batch[0].labels[row])];
  }
  EXPECT_NEAR(tensors.at("loss").values[0], expected / 32, 1e-5);
}

TEST(Training, ALossThatIsNotFiniteIsAnError) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  const auto cluster = make_cpu_cluster(c, 2);
  TrainConfig train;
  train.optimizer.learning_rate = 1e30;
  train.steps = 100;
  Trainer trainer(*cluster, c, train);
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i) trainer.step(random_batch(c, i));
      },
      WrongNumbers);
}

TEST(Text, BatchesComeFromTheRightPartAndLabelsFollowTokens) {
  RunConfig c = small_gpt();
  c.model.vocabulary = 256;
  std::string bytes;
  for (int i = 0; i < 9000; ++i) bytes += static_cast<char>('a' + i % 20);
  bytes += std::string(1000, 'Z');
  const Text text(bytes, c);
  EXPECT_EQ(text.training_bytes(), 9000);
  const Batch batch = text.training_batch(3);
  EXPECT_EQ(batch[0].tokens, text.training_batch(3)[0].tokens);
  EXPECT_NE(batch[0].tokens, text.training_batch(4)[0].tokens);
  const auto b = static_cast<size_t>(c.micro_batch);
  for (size_t i = 0; i + b < batch[0].tokens.size(); ++i) {
    EXPECT_EQ(batch[0].labels[i], batch[0].tokens[i + b]);
    EXPECT_NE(batch[0].tokens[i], 'Z');
  }
  const Batch held_out = text.held_out_batch(1000);
  EXPECT_EQ(held_out.size(), 999U / 32 / b);
  for (const int32_t token : held_out[0].tokens) EXPECT_EQ(token, 'Z');
  EXPECT_EQ(text.held_out_microbatches(1), 1);
  EXPECT_EQ(text.held_out_microbatches(2 * 32 * c.micro_batch), 2);
  EXPECT_THROW(Text("too short", c), InputError);
  EXPECT_THROW(Text::from_file("/no/such/file", c), InputError);
}

TEST(Text, HeldOutSequencesAreSpreadFromTheFirstByteToTheLast) {
  RunConfig c = small_gpt();
  c.model.vocabulary = 256;
  std::string bytes(9000, 'a');
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i / 4);  // where it comes from
  const Batch batch = Text(bytes, c).held_out_batch(3);
  ASSERT_EQ(batch.size(), 3U);
  EXPECT_EQ(batch.front().tokens.front(), 0);
  EXPECT_EQ(batch.back().labels.back(), 999 / 4);
  int previous = -1;
  for (const MicroBatch& b : batch)
    for (size_t column = 0; column < 2; ++column) {
      const int first = b.tokens[column];
      if (previous >= 0) {
        EXPECT_NEAR(first - previous, 967 / 5 / 4, 1);
      }
      previous = first;
    }
}

/// A warmed-up step computes the same, and the peaks of a run of one step are that step's.
TEST(Training, WarmingUpChangesNothingAndTakesNoMoreMemoryThanAStep) {
  std::vector<RunConfig> configs(2, small_gpt());
  for (RunConfig& c : configs) c.microbatches = 4;
  configs[1].data_parallel = 2;
  for (const ScheduleKind& kind :
       {ScheduleKind::gpipe, ScheduleKind::interleaved, ScheduleKind::pipedream,
        ScheduleKind::two_buffered, ScheduleKind::zero_bubble_h2}) {
    RunConfig& c = configs.emplace_back(configs.front());
    c.pipeline_parallel = 2;
    c.model.layers = 4;
    c.schedule = kind;
    if (kind == ScheduleKind::interleaved) c.chunks = 2;
  }
  for (const RunConfig& c : configs) {
    std::vector<BytesPerKind> peaks[2];
    std::vector<double> numbers[2];
    for (const bool warm : {false, true}) {
      const auto cluster = make_cpu_cluster(c, 1);
      Trainer trainer(*cluster, c, {});
      if (warm) trainer.warm_up(random_batch(c, 1));
      const int64_t peak = cluster->rank(0).ledger.peak();
      for (int step = 0; step < 2; ++step) {
        const StepResult result = trainer.step(random_batch(c, step));
        numbers[warm].insert(numbers[warm].end(),
                             {result.loss, result.gradient_norm, result.flops});
      }
      for (int r = 0; r < cluster->local_ranks(); ++r)
        peaks[warm].push_back(cluster->rank(r).ledger.peak_per_kind());
      if (warm) {
        EXPECT_GT(2 * peak, cluster->rank(0).ledger.peak()) << "it did not run";
      }
    }
    EXPECT_EQ(peaks[1], peaks[0]) << name_of(c.schedule) << " of " << c.ranks();
    EXPECT_EQ(numbers[1], numbers[0]) << name_of(c.schedule) << " of " << c.ranks();
  }
}

TEST(LearningRate, WarmsUpAndFallsToATenth) {
  TrainConfig train;
  train.optimizer.learning_rate = 1;
  train.warm_up = 10;
  train.steps = 110;
  EXPECT_DOUBLE_EQ(train.learning_rate(0), 0.1);
  EXPECT_DOUBLE_EQ(train.learning_rate(9), 1);
  EXPECT_NEAR(train.learning_rate(60), 0.55, 1e-12);
  EXPECT_NEAR(train.learning_rate(110), 0.1, 1e-12);
}

}  // namespace
}  // namespace frugal::engine
