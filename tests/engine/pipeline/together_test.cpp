#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"
#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

/// Two passes that are made together compute what they compute one after the other, on all ranks in
/// the same order, and hide each other's communication. That they equal the serial run is among
/// oracle_test.cpp's cases and the combinations'.
namespace frugal::engine {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::small_gpt;
using testing::small_llama;

RunConfig in_a_v(RunConfig run, int stages = 2) {
  run.model.layers = 4 * stages;
  run.micro_batch = 1;
  run.schedule = ScheduleKind::dual_pipe_v;
  run.chunks = 2;
  run.pipeline_parallel = stages;
  run.microbatches = 2 * stages + 1;
  return run;
}

RunConfig apart(RunConfig run) {
  run.overlap_passes = PassOverlap::off;
  return run;
}

/// Losses, norms, and at last every weight, logit and gradient.
using TrainedTwice = std::map<std::string, std::vector<double>>;

TrainedTwice trained_twice(const RunConfig& run) {
  const auto cluster = make_cpu_cluster(run, 1, 60);
  Trainer trainer(*cluster, run, {});
  TrainedTwice trained;
  for (int i = 0; i < 2; ++i) {
    const StepResult result = trainer.step(random_batch(run, i));
    trained["losses"].push_back(result.loss);
    trained["norms"].push_back(result.gradient_norm);
  }
  for (const auto& [name, tensor] : trainer.snapshot(random_batch(run, 2).front()))
    trained[name].assign(tensor.values.begin(), tensor.values.end());
  return trained;
}

// Each gradient is summed in the order of microbatches, together or not.
TEST(Together, ComputesTheSameToTheBit) {
  RunConfig recomputed = in_a_v(small_gpt(), 4), parts = in_a_v(small_gpt()),
            context = in_a_v(small_llama());
  recomputed.recompute = Recompute::selective;
  parts.mlp_chunks = parts.head_chunks = parts.head_tiles = 2;
  parts.model.tied = false;  // otherwise both passes add to one table
  parts.overwrite_gradients = true;
  context.context_parallel = 2;
  context.context = ContextKind::zigzag;
  for (RunConfig run : {recomputed, parts, context}) {
    run.tensor_parallel = 2;
    run.sequence_parallel = true;
    ASSERT_TRUE(run.overlaps_passes());
    EXPECT_EQ(trained_twice(run), trained_twice(apart(run)));
  }
}

/// Operations of each rank in a batch's passes, and behind which call of its tensor group it does.
/// In the step members differ, of which one has what all have.
std::vector<std::vector<std::string>> order_of(const RunConfig& run) {
  const auto cluster = make_cpu_cluster(run, 1, 60);
  Trainer trainer(*cluster, run, {});
  std::vector<std::vector<std::string>> order(static_cast<size_t>(cluster->local_ranks()));
  for (int i = 0; i < cluster->local_ranks(); ++i) {
    Rank& rank = cluster->rank(i);
    rank.device.time_operations([&rank, &own = order[static_cast<size_t>(i)]](
                                    const Operation& operation, double /*seconds*/) {
      const Activity::Call call = rank.activity.state().call;
      own.push_back(fmt::format("{} {} {} {}", name_of(operation), call.group, call.name,
                                call.group == "tensor" ? call.number : 0));
    });
  }
  const auto cut = [](std::vector<std::string>& own) {  // behind the last product
    const auto last = std::find_if(own.rbegin(), own.rend(),
                                   [](const auto& text) { return text.starts_with("gemm"); });
    own.erase(last.base(), own.end());
  };
  (void)trainer.step(random_batch(run, 0));
  std::ranges::for_each(order, cut);
  for (int i = 0; i < cluster->local_ranks(); ++i) cluster->rank(i).device.time_operations({});
  return order;
}

TEST(TogetherOrder, IsTheSameOnAllMembersOfATensorGroup) {
  RunConfig run = in_a_v(small_gpt());
  run.tensor_parallel = 2;
  run.sequence_parallel = true;
  const auto together = order_of(run), one_by_one = order_of(apart(run));
  for (size_t first = 0; first < together.size(); first += 2) {
    ASSERT_GT(together[first].size(), 100u);
    EXPECT_EQ(together[first], together[first + 1]);
    EXPECT_NE(together[first], one_by_one[first]) << "nothing took turns";
    EXPECT_EQ(together[first].size(), one_by_one[first].size());
  }
}

/// Time of a step on a virtual machine, and bytes that a rank of stage 0 holds.
struct Timed {
  double step = 0;
  Timeline timeline;
  int64_t held = 0, peak = 0, workspace = 0;
};

RunConfig large(int tensor) {
  RunConfig run = in_a_v(small_llama());
  run.model.hidden = 4096;
  run.model.intermediate = 8192;
  run.model.heads = 32;
  run.model.kv_heads = 8;
  run.model.sequence = 4096;
  run.model.vocabulary = 4096;
  run.type = DType::bf16;
  run.tensor_parallel = tensor;
  run.sequence_parallel = tensor > 1;
  run.microbatches = 8;
  return run;
}

Timed timed(const RunConfig& run, const Machine& machine) {
  const auto cluster = make_virtual_cluster(run, machine);
  Trainer trainer(*cluster, run, {});
  trainer.keep_timeline(true);
  const Batch batch(static_cast<size_t>(run.microbatches));
  const Ledger& ledger = cluster->rank(0).ledger;
  (void)trainer.step(batch);
  const int64_t held = ledger.current();
  Timed timed{.step = trainer.step(batch).seconds,
              .timeline = trainer.timeline(),
              .held = ledger.current(),
              .peak = ledger.peak(),
              .workspace = ledger.peak(Kind::workspace)};
  EXPECT_EQ(timed.held, held) << "what two passes took, they gave back";
  return timed;
}

/// Two passes of stage 0 that are made together, where they are.
std::pair<Action, Action> two_of(const Timeline& timeline) {
  const std::vector<Span>& spans = timeline.stages[0];
  const auto first =
      std::ranges::find_if(spans, [](const Span& s) { return s.action.beside_next; });
  if (first == spans.end()) throw std::logic_error("no passes are made together");
  return {first->action, first[1].action};
}

double seconds_of(const Timeline& timeline, Action pass) {
  for (const Span& span : timeline.stages[0]) {
    Action here = span.action;
    here.beside_next = pass.beside_next = false;
    if (here == pass) return span.end - span.begin;
  }
  throw std::logic_error("no such pass");
}

/// Machine whose collectives take no time.
Machine without_communication(Machine machine) {
  machine.link_bandwidth = machine.network_bandwidth = 1e30;
  machine.collective_latency = machine.link_latency = machine.network_latency = 0;
  return machine;
}

Machine without_contention(Machine machine) {
  machine.collective_share = machine.compute_share = 0;
  return machine;
}

// No less than what both compute. What they wait for hides in part: a short turn of the one does
// not hide a collective of the other, and what is computed beside a collective takes longer.
TEST(TogetherTime, HidesWhatEachWouldWaitFor) {
  for (const char* const name : {"h100-dgx", "a100-selene"})
    for (const int tensor : {2, 4, 8})
      for (const bool contention : {true, false}) {
        const std::string what = fmt::format("{} {} {}", name, tensor, contention);
        const Machine found = find_machine(name);
        const Machine machine = contention ? found : without_contention(found);
        const RunConfig run = large(tensor);
        const Timed together = timed(run, machine), one_by_one = timed(apart(run), machine);
        const Timed computed = timed(apart(run), without_communication(machine));
        const auto [forward, backward] = two_of(together.timeline);
        const auto both = [&, f = forward, b = backward](const Timed& of) {
          return seconds_of(of.timeline, f) + seconds_of(of.timeline, b);
        };
        const double seconds = seconds_of(together.timeline, forward);
        const double exposed = both(one_by_one) - both(computed);
        EXPECT_GT(exposed, 0.05 * both(computed)) << what;
        EXPECT_GE(seconds, both(computed)) << what;
        EXPECT_LT(seconds, both(one_by_one) - exposed / (contention ? 8 : 4)) << what;
        // Where there is little to hide, it is less than what the stages wait for both passes.
        if (tensor > 2) {
          EXPECT_LT(together.step, one_by_one.step) << what;
        }
        EXPECT_GT(together.step, computed.step) << what;
        EXPECT_EQ(together.held, one_by_one.held) << what;
        EXPECT_LE(together.peak, one_by_one.peak + one_by_one.workspace) << what;
      }
}

TEST(TogetherTime, IsTheSameWhereNothingIsWaitedFor) {
  const Machine machine = find_machine("h100-dgx");
  const Timed together = timed(large(1), machine), one_by_one = timed(apart(large(1)), machine);
  EXPECT_EQ(together.step, one_by_one.step);
  EXPECT_EQ(together.peak, one_by_one.peak);
}

// In the third forward pass with logits, or the second backward pass through them: either is beside
// another pass.
TEST(TogetherFailures, AFailureOfEitherPassEndsTheRun) {
  RunConfig run = in_a_v(small_gpt());
  run.tensor_parallel = 2;
  for (const bool forward : {true, false}) {
    const auto cluster = make_cpu_cluster(run, 1, 60);
    int passes = 0;
    Rank& rank = cluster->rank(1);
    rank.device.time_operations([&](const Operation& operation, double /*seconds*/) {
      const bool seen = forward ? std::holds_alternative<CrossEntropyStatistics>(operation)
                                : std::holds_alternative<GemmGeluBackward>(operation);
      if (seen && ++passes == (forward ? 3 : 5)) throw std::runtime_error("enough");
    });
    EXPECT_EQ(error_of([&] { (void)Trainer(*cluster, run, {}).step(random_batch(run, 0)); }),
              "rank 1: enough");
    rank.device.time_operations({});
    // The ranks can be used again.
    EXPECT_EQ(error_of([&] { (void)Trainer(*cluster, run, {}).step(random_batch(run, 0)); }),
              "no error");
  }
}

// On ever smaller devices; of several of which two are made together.
TEST(TogetherFailures, ThePassThatRunsOutOfMemoryIsNamed) {
  const RunConfig run = large(2);
  Machine machine = find_machine("h100-dgx");
  const Timed roomy = timed(run, machine);  // of the second batch
  const auto named = [&](const Action& pass) {
    return fmt::format("memory: stage 0, {}{}.{}", pass.kind == ActionKind::forward ? 'F' : 'B',
                       pass.microbatch - run.microbatches, pass.chunk);
  };
  std::set<std::string> first, second;
  const std::vector<Span>& spans = roomy.timeline.stages[0];
  for (size_t i = 0; i < spans.size(); ++i) {
    if (!spans[i].action.beside_next) continue;
    first.insert(named(spans[i].action));
    second.insert(named(spans[i + 1].action));
  }
  bool any_first = false, any_second = false;
  for (int i = 0; i <= 100; ++i) {
    machine.memory_capacity = roomy.held + (roomy.peak - roomy.held) * i / 100 - 1;
    const std::string error = error_of([&] { (void)timed(run, machine); });
    const std::string who = error.substr(0, error.find('@'));
    any_first = any_first || first.contains(who);
    any_second = any_second || second.contains(who);
  }
  EXPECT_TRUE(any_first);
  EXPECT_TRUE(any_second);
}

// A message that does not come.
TEST(TogetherFailures, ThePassThatWaitsIsNamed) {
  RunConfig run = in_a_v(small_gpt());
  run.tensor_parallel = 2;
  run.microbatches = 4;
  const auto cluster = make_cpu_cluster(run, 1, 2);
  Trainer trainer(*cluster, run, {});
  Schedule schedule = make_schedule(run.schedule, {.stages = 2, .chunks = 2, .microbatches = 4});
  const Actions& first = schedule.actions[0];
  const auto two = std::ranges::find_if(
      first, [](const Action& action) { return action.beside_next && action.chunk == 1; });
  std::erase_if(schedule.actions[1], [&](const Action& action) {
    return action.kind == ActionKind::send_activation && action.chunk == 1 &&
           action.microbatch >= two->microbatch;
  });
  EXPECT_THAT(error_of([&] { (void)trainer.run({random_batch(run, 0)}, schedule); }),
              HasSubstr(fmt::format("deadline: all ranks wait for each other: stage 0, F{}.1@0: ",
                                    two->microbatch)));
}

// Passes that gather the same weights would give them back to each other.
TEST(TogetherFailures, DividedWeightsAreRefused) {
  RunConfig run = small_gpt();
  run.microbatches = run.tensor_parallel = run.data_parallel = 2;
  run.shard = Shard::weights;
  Schedule schedule = make_schedule(ScheduleKind::gpipe, {.microbatches = 2});
  schedule.actions[0][1].beside_next = true;
  const auto trained = [&] {
    const auto cluster = make_cpu_cluster(run, 1, 60);
    (void)Trainer(*cluster, run, {}).run({random_batch(run, 0)}, schedule);
  };
  EXPECT_THAT(error_of(trained), HasSubstr("shard is weights and the schedule makes passes "
                                           "together (&)"));
  run.overlap_passes = PassOverlap::off;
  EXPECT_EQ(error_of(trained), "no error");
}

}  // namespace
}  // namespace frugal::engine
