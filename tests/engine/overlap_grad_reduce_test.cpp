#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "engine/program/find_program.h"
#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/replicas.h"

// Sums over replicas that begin in the last backward passes of a batch
// (RunConfig::overlap_grad_reduce) are the sums of a step that makes them behind the passes.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::small_llama;
using testing::trained;
using testing::TrainedRun;
using testing::worst_error;

RunConfig overlapped(RunConfig c, int64_t bucket_size = 0) {
  c.overlap_grad_reduce = true;
  c.bucket_size = bucket_size;
  return c;
}
RunConfig late(RunConfig c) {
  c.overlap_grad_reduce = false;
  return c;
}

const TrainConfig clipped = testing::replica_training(0.5);

/// Replicas sum each element in the same order, however many are summed at once: a bucket for each
/// parameter, some parameters a bucket, and one bucket.
void expect_the_same_bits(const RunConfig& c) {
  const TrainedRun behind = trained(late(c), clipped);
  for (const int64_t bucket_size : {1, 5000, 0}) {
    if (c.shards(Shard::optimizer) && bucket_size > 0) continue;
    SCOPED_TRACE(fmt::format("{} {} {}", c.model.name, name_of(c.shard), bucket_size));
    const TrainedRun beside = trained(overlapped(c, bucket_size), clipped);
    const auto worst = worst_error(beside.end, behind.end);
    EXPECT_EQ(worst.value, 0) << worst.tensor;
    for (size_t i = 0; i < behind.steps.size(); ++i) {
      EXPECT_EQ(beside.steps[i].loss, behind.steps[i].loss);
      EXPECT_THAT(beside.steps[i].gradient_norm,
                  ::testing::NanSensitiveDoubleEq(behind.steps[i].gradient_norm));
    }
  }
}

/// Cases that the order of sums could tell: several microbatches, chunks that share a table, and
/// sums that are rounded. The combinations draw others.
TEST(OverlappedSums, HaveTheSameBits) {
  RunConfig microbatches = small_gpt();
  microbatches.data_parallel = 2;
  microbatches.microbatches = 3;
  expect_the_same_bits(microbatches);
  RunConfig chunks = small_gpt();
  chunks.data_parallel = chunks.pipeline_parallel = chunks.chunks = 2;
  chunks.model.layers = chunks.microbatches = 4;
  chunks.schedule = ScheduleKind::zero_bubble_v;
  RunConfig narrow = small_llama();
  narrow.data_parallel = narrow.context_parallel = 2;
  narrow.type = DType::bf16;
  narrow.narrow_reduction = true;
  for (RunConfig c : {chunks, narrow})
    for (const Shard shard : {Shard::none, Shard::optimizer}) {
      c.shard = shard;
      expect_the_same_bits(c);
    }
}

/// The most of each kind that any step holds, on the first rank.
std::map<Kind, int64_t> peaks(Cluster& cluster, const RunConfig& config) {
  Trainer trainer(cluster, config, clipped);
  for (int i = 0; i < 2; ++i) trainer.step(random_batch(config, i));
  std::map<Kind, int64_t> all;
  for (const Kind kind : {Kind::parameter, Kind::gradient, Kind::optimizer, Kind::activation,
                          Kind::workspace, Kind::communication})
    all[kind] = cluster.rank(0).ledger.peak(kind);
  return all;
}

std::map<Kind, int64_t> described_peaks(const RunConfig& config) {
  return peaks(*make_virtual_cluster(config, find_machine("a100-selene")), config);
}

TEST(OverlappedSums, TakeTheBytesThatAreCounted) {
  for (const Shard shard : {Shard::none, Shard::optimizer})
    for (const bool narrow : {false, true})
      for (const int stages : {1, 2}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(shard), narrow, stages));
        RunConfig c = overlapped(small_gpt(), shard == Shard::none ? 5000 : 0);
        c.type = DType::bf16;
        c.data_parallel = c.microbatches = 2;
        c.pipeline_parallel = stages;
        c.shard = shard;
        c.narrow_reduction = narrow;
        EXPECT_EQ(peaks(*make_cpu_cluster(c, 2), c), described_peaks(c));
      }
}

/// All buckets that are rounded are on their way at once; without overlap, the largest group is.
TEST(OverlappedSums, HoldWhatIsRoundedUntilTheStep) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  c.data_parallel = 2;
  EXPECT_EQ(described_peaks(overlapped(c, 5000)).at(Kind::communication), 0);
  c.narrow_reduction = true;
  const int64_t gradients = described_peaks(late(c)).at(Kind::gradient);
  EXPECT_EQ(described_peaks(overlapped(c, 5000)).at(Kind::communication), gradients / 2);
}

/// Times of a step of a machine without latencies, whose collectives take no share of it.
class OverlappedTime : public ::testing::Test {
 protected:
  OverlappedTime() {
    machine.collective_latency = machine.link_latency = machine.launch_overhead = 1e-30;
    machine.collective_share = machine.compute_share = 0;
  }

  struct Step {
    double seconds = 0;
    std::vector<VirtualDevice::Interval> sums;
    double backward_end = 0;  ///< of the last backward pass
  };

  Step step(const RunConfig& config) const {
    const auto cluster = make_virtual_cluster(config, machine);
    auto& device = dynamic_cast<VirtualDevice&>(cluster->rank(0).device);
    Trainer trainer(*cluster, config, {});
    const Batch batch(static_cast<size_t>(config.batch_microbatches()));
    (void)trainer.step(batch);
    device.keep_log(true);
    const double begin = device.now();
    (void)trainer.step(batch);
    Step step{device.now() - begin, {}, 0};
    for (const VirtualDevice::Interval& interval : device.log()) {
      const bool divided = config.shard == Shard::optimizer;  // and the norm is an all-reduce
      const bool sum = interval.name == (divided ? "reduce-scatter" : "all-reduce");
      if (sum && interval.stream == streams::replicas.name) step.sums.push_back(interval);
      if (interval.name == "embedding-backward") step.backward_end = interval.end;
    }
    return step;
  }

  Machine machine = find_machine("a100-selene");
};

/// An untied Llama, whose buckets are the head's norm, the layers, and two tables where they lie
/// apart in memory.
RunConfig two_replicas() {
  RunConfig c = small_llama();
  c.model.layers = 4;
  c.data_parallel = 2;
  return c;
}

/// Seconds in which two replicas sum so many gradients in float32: each sends half of them around
/// the ring, twice.
double sum_of(const Machine& machine, int64_t elements) {
  return 4.0 * static_cast<double>(elements) / (machine.link_bandwidth * machine.link_fraction);
}

/// A link so fast that each bucket's sum ends before the next one is complete: what remains behind
/// the pass is that of the last bucket, the table of the embedding.
TEST_F(OverlappedTime, AllButTheLastSumIsHidden) {
  const RunConfig c = two_replicas();
  const Step behind = step(late(c)), beside = step(overlapped(c, 1));
  const ModelConfig& m = c.model;
  const int64_t table = m.vocabulary * m.hidden;
  const int64_t layer = m.hidden * (m.qkv_size() + m.query_size() + 3 * m.intermediate + 2);
  const int64_t rest = m.layers * layer + table + m.hidden;
  EXPECT_NEAR(behind.seconds - beside.seconds, sum_of(machine, rest), 1e-9 * behind.seconds);
  double summed = 0;
  for (const auto& sum : beside.sums) summed += sum.end - sum.begin;
  EXPECT_NEAR(summed, sum_of(machine, rest + table), 1e-9 * summed);
}

/// A link so slow that it is busy from the first complete bucket on: what is saved is the backward
/// pass from then on.
TEST_F(OverlappedTime, ABusyLinkHidesTheBackwardPass) {
  machine.link_bandwidth /= 1000;
  const Step behind = step(late(two_replicas())), beside = step(overlapped(two_replicas(), 1));
  ASSERT_FALSE(beside.sums.empty());
  EXPECT_LT(beside.sums.front().begin, beside.backward_end);
  EXPECT_NEAR(behind.seconds - beside.seconds, beside.backward_end - beside.sums.front().begin,
              1e-9 * behind.seconds);
}

/// ZeRO-1: a unit's reduce-scatter begins when its gradients are complete.
TEST_F(OverlappedTime, UnitsAreSummedBesideTheBackwardPass) {
  RunConfig c = two_replicas();
  c.shard = Shard::optimizer;
  const Step behind = step(late(c)), beside = step(overlapped(c));
  const auto units = static_cast<size_t>(c.model.layers) + 3;
  ASSERT_EQ(beside.sums.size(), units);
  EXPECT_GE(behind.sums.front().begin, behind.backward_end);
  for (size_t i = 0; i + 1 < units; ++i) EXPECT_LT(beside.sums[i].begin, beside.backward_end) << i;
  EXPECT_LT(beside.seconds, behind.seconds);
}

/// Buckets of a step, of which none begins where the one before it ends: the link is fast.
int buckets(const std::vector<VirtualDevice::Interval>& sums) {
  int count = 0;
  for (size_t i = 0; i < sums.size(); ++i)
    count += i == 0 || sums[i].begin > sums[i - 1].end ? 1 : 0;
  return count;
}

/// The head, layers and the table go together until they have as many elements as were asked for.
TEST_F(OverlappedTime, ABucketHasAtLeastItsSize) {
  machine.link_bandwidth *= 1e6;
  const RunConfig c = two_replicas();
  const ModelConfig& m = c.model;
  const int64_t table = m.vocabulary * m.hidden;
  const int64_t layer = m.hidden * (m.qkv_size() + m.query_size() + 3 * m.intermediate + 2);
  for (const int64_t size : {int64_t{1}, layer, 2 * layer, 4 * layer, int64_t{1} << 30}) {
    int expected = 0;
    int64_t held = 0;
    for (const int64_t module : {table + m.hidden, layer, layer, layer, layer, table}) {
      held += module;
      if (held < size) continue;
      ++expected;
      held = 0;
    }
    EXPECT_EQ(buckets(step(overlapped(c, size)).sums), expected + (held > 0 ? 1 : 0)) << size;
  }
}

/// Megatron-LM's rule: of a stage that is not the first, all gradients are summed behind its last
/// pass. Frugal has buckets there where passes of weights alone come last.
TEST(Buckets, AreThoseOfThePrograms) {
  RunConfig c = small_gpt();
  c.data_parallel = c.pipeline_parallel = 2;
  constexpr int64_t all = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(c.bucket_elements(0, 0), 10'000'000);
  EXPECT_EQ(c.bucket_elements(1, 0), all);
  c.schedule = ScheduleKind::zero_bubble_h1;
  EXPECT_EQ(c.bucket_elements(1, 0), 10'000'000);
  c.program = find_program("first-chunk-buckets");
  EXPECT_EQ(c.bucket_elements(0, 0), 40'000'000);
  EXPECT_EQ(c.bucket_elements(0, 1), all);
  EXPECT_EQ(c.bucket_elements(1, 0), all);
  c.data_parallel = 64;
  EXPECT_EQ(c.bucket_elements(0, 0), 64'000'000);
  c.program = find_program("buckets-of-25-mib");
  c.type = DType::bf16;
  EXPECT_EQ(c.bucket_elements(1, 0), 25 * 1024 * 1024 / 4);
  c.program = find_program("late-sums");
  EXPECT_FALSE(c.overlaps_sums());
}

/// Sums overlap by default where that takes no memory, with a schedule that flushes.
TEST(OverlappedSums, AreTheDefault) {
  RunConfig c = small_gpt();
  EXPECT_FALSE(c.overlaps_sums());
  c.data_parallel = 2;
  EXPECT_TRUE(c.overlaps_sums());
  c.shard = Shard::optimizer;
  EXPECT_TRUE(c.overlaps_sums());
  c.shard = Shard::gradients;  // summed in every pass
  EXPECT_FALSE(c.overlaps_sums());
  c.shard = Shard::none;
  c.schedule = ScheduleKind::two_buffered;
  EXPECT_FALSE(c.overlaps_sums());
  c.schedule = ScheduleKind::gpipe;
  c.type = DType::bf16;
  c.narrow_reduction = true;
  EXPECT_FALSE(c.overlaps_sums());
}

/// Only the last microbatch's passes begin sums.
TEST_F(OverlappedTime, EachGradientIsSummedOnceInAStep) {
  RunConfig c = two_replicas();
  const size_t once = step(overlapped(c, 1)).sums.size();
  c.microbatches = 3;
  EXPECT_EQ(step(overlapped(c, 1)).sums.size(), once);
}

}  // namespace
}  // namespace frugal::engine
