#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "engine/data/single_batch.h"
#include "engine/schedule/schedules.h"
#include "engine/train/pass_memo.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/combinations/draw.h"
#include "tests/engine/support.h"

/// A run whose passes are repeated by a memo (engine/train/pass_memo.h) is the run in which the
/// model's code makes each: every clock, every byte, every FLOP, to the bit. The second kind of run
/// is one whose ledgers keep a timeline, which needs every change.
namespace frugal::engine {
namespace {

using testing::small_gpt;

/// All that can be seen of a run; doubles by their bits, so that NaN is NaN.
struct Seen {
  std::vector<uint64_t> numbers;
  std::vector<int64_t> bytes;
  std::vector<Action> actions;
  std::string error;

  void see(double value) { numbers.push_back(std::bit_cast<uint64_t>(value)); }
  void see(const Ledger& ledger) {
    for (const BytesPerKind& kinds :
         {ledger.current_per_kind(), ledger.peak_per_kind(), ledger.at_peak()})
      bytes.insert(bytes.end(), kinds.begin(), kinds.end());
    for (const int64_t sum : {ledger.current(), ledger.peak(), ledger.peak_in_layers()})
      bytes.push_back(sum);
  }
  void see(Rank& rank) {
    see(rank.ledger);
    see(rank.host);
    see(rank.flops.total());
    bytes.push_back(rank.ledger.kept());
    see(rank.device.work());
    bytes.push_back(rank.device.reserved());
    for (uint8_t stream = 0; stream < most_streams; ++stream)
      see(rank.device.record(Stream{stream}).time);
    see(rank.device.now());
  }
  void see(const DeviceWork& work) {
    for (const DeviceWork::Operations& all : work.operations)
      for (const double number : {all.count, all.cost.bytes, all.cost.flops}) see(number);
    see(work.calls.launches);
  }
  void see(const std::vector<StepResult>& results) {
    for (const StepResult& result : results) {
      see(result.loss);
      see(result.gradient_norm);
      see(result.seconds);
      see(result.flops);
    }
  }
  void see(const Timeline& timeline) {
    for (const auto& stage : timeline.stages)
      for (const Span& span : stage) {
        actions.push_back(span.action);
        see(span.begin);
        see(span.end);
      }
  }
  bool operator==(const Seen&) const = default;
};

struct MemoCase {
  RunConfig run;
  Machine machine = find_machine("a100-selene");
  double clip = 1;
};

/// Three batches, two of them in one go, then an evaluation; what of it fits.
Seen train(const MemoCase& c, bool repeated) {
  Seen seen;
  const auto cluster = make_virtual_cluster(c.run, c.machine);
  const auto see_ranks = [&] {
    for (int i = 0; i < cluster->local_ranks(); ++i) seen.see(cluster->rank(i));
  };
  try {
    for (int i = 0; i < cluster->local_ranks(); ++i)
      cluster->rank(i).ledger.record_timeline(!repeated);
    Trainer trainer(*cluster, c.run, {.optimizer = {.clip = c.clip}, .steps = 3});
    const Batch batch(static_cast<size_t>(c.run.batch_microbatches()));
    trainer.keep_timeline(true);
    for (const size_t batches : {2, 1}) {
      seen.see(trainer.run(std::vector<Batch>(batches, batch)));
      seen.see(trainer.timeline());
      see_ranks();
      for (int i = 0; i < cluster->local_ranks(); ++i) cluster->rank(i).ledger.reset_peaks();
    }
    seen.see(trainer.evaluate(batch));
    see_ranks();
  } catch (const OutOfMemory& e) {
    seen.error = e.what();
    see_ranks();  // which can be used again
  }
  return seen;
}

void expect_same(const MemoCase& c, const std::string& what) {
  const Seen repeated = train(c, true), computed = train(c, false);
  ASSERT_GT(repeated.numbers.size(), 8u) << what << ": " << repeated.error;
  EXPECT_EQ(repeated.numbers, computed.numbers) << what;
  EXPECT_EQ(repeated.bytes, computed.bytes) << what;
  EXPECT_EQ(repeated.actions, computed.actions) << what;
  EXPECT_EQ(repeated.error, computed.error) << what;
}

RunConfig pipelined(RunConfig run, ScheduleKind schedule, int stages = 4) {
  run.model.layers = 8;
  run.schedule = schedule;
  run.pipeline_parallel = stages;
  run.chunks = schedule.has_chunks ? 2 : 1;
  run.microbatches = 8;
  return run;
}

std::string text(const RunConfig& c) {
  return fmt::format("{} {} t{}", name_of(c.schedule), name_of(c.recompute), c.tensor_parallel);
}

/// Drawn runs, with every behaviour of programs that a virtual device has.
TEST(PassMemo, AnyRun) {
  testing::Draw draw(3);
  for (int cases = 0; cases < 150;) {
    MemoCase c{.run = draw.combination(testing::Draw::Device::counted)};
    c.clip = c.run.schedule.flushes && !c.run.step_in_backward ? 1 : 0;
    if (cases % 5 == 0) c.machine.launch_overhead = 1e-3;
    try {
      c.run.validate();
    } catch (const InputError&) {
      continue;
    }
    expect_same(c, testing::text_of(c.run));
    ++cases;
  }
}

/// A pass that is repeated makes and keeps the same as the one that was noted.
TEST(PassMemo, WhatIsKeptIsCounted) {
  RunConfig config = small_gpt();
  config.recompute = Recompute::selective;
  const auto cluster = make_virtual_cluster(config, find_machine("a100-selene"));
  cluster->run([&](Rank& rank) {
    StageModel model(rank);
    PassMemo memo(rank);
    const ParameterList parameters = model.parameters();
    const PassMemo::Key key{
        {ActionKind::forward, 0, config.recompute, false, fresh_of(parameters)}};
    Gpt::Saved saved;
    Tensor losses;
    const int64_t before = rank.ledger.current();
    const Pass pass(rank, {-1, 3});
    memo.note(
        key,
        [&] {
          losses = model.part(0).forward(
              pass, {{}, local_integers(pass, {}), {local_integers(pass, {}), 1}, false}, saved);
        },
        {{nullptr, &losses, 3}}, parameters);
    const int64_t kept = rank.ledger.current() - before;
    const int64_t activations = rank.ledger.current(Kind::activation);
    const double flops = rank.flops.total();
    ASSERT_NE(memo.find(key), nullptr);
    ASSERT_TRUE(memo.find(key)->repeatable());
    PassMemo::Key other = key;
    other.front().turns = true;
    EXPECT_EQ(memo.find(other), nullptr);
    EXPECT_EQ(memo.find({key.front(), key.front()}), nullptr);
    Tensor again;
    memo.find(key)->repeat({{nullptr, &again, 3}}, parameters);
    EXPECT_EQ(again.shape(), losses.shape());
    EXPECT_EQ(again.type(), losses.type());
    EXPECT_EQ(rank.ledger.current() - before, 2 * kept);
    EXPECT_EQ(rank.ledger.current(Kind::activation), 2 * activations);
    EXPECT_EQ(rank.flops.total(), 2 * flops);
    EXPECT_GT(activations, 0);
    EXPECT_EQ(rank.device.reserved(), rank.ledger.current());
  });
}

/// Runs on ever smaller devices, down to such as the model does not fit on: the same error.
void expect_same_errors(ScheduleKind schedule, int stages, Recompute recompute, int tensor = 1) {
  MemoCase c{.run = pipelined(small_gpt(), schedule, stages)};
  c.run.tensor_parallel = tensor;
  c.run.recompute = recompute;
  int64_t fixed = 0, peak = 0;
  {
    const auto cluster = make_virtual_cluster(c.run, c.machine);
    Trainer trainer(*cluster, c.run, {});
    fixed = cluster->rank(0).ledger.current();
    (void)trainer.step(Batch(static_cast<size_t>(c.run.microbatches)));
    peak = cluster->rank(0).ledger.peak();
  }
  std::set<std::string> errors;
  constexpr int sizes = 60;
  for (int i = 0; i <= sizes; ++i) {
    c.machine.memory_capacity = fixed + (peak - fixed) * i / sizes - 1;
    const Seen repeated = train(c, true), computed = train(c, false);
    EXPECT_EQ(repeated, computed) << text(c.run) << "\n"
                                  << repeated.error << "\n"
                                  << computed.error;
    EXPECT_NE(computed.error, "");
    errors.insert(computed.error.substr(0, computed.error.find(':')));
  }
  EXPECT_GT(errors.size(), 2u) << "passes that ran out of memory, " << text(c.run);
}

TEST(PassMemo, OutOfMemory) {
  for (const int stages : {1, 2})
    for (const ScheduleKind& schedule : {ScheduleKind::one_forward_one_backward,
                                         ScheduleKind::gpipe, ScheduleKind::zero_bubble_h2})
      for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::stage})
        expect_same_errors(schedule, stages, recompute);
}

/// Names the one that runs out of memory of two passes that are made together.
TEST(PassMemo, OutOfMemoryOfTwoPassesTogether) {
  for (const Recompute recompute : {Recompute::none, Recompute::full})
    expect_same_errors(ScheduleKind::dual_pipe_v, 2, recompute, 2);
}

}  // namespace
}  // namespace frugal::engine
