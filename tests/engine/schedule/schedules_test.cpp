#include "engine/schedule/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "engine/schedule/check.h"
#include "engine/schedule/peaks.h"
#include "engine/schedule/text.h"
#include "kernels/support/error.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

std::string line(const Actions& actions, int chunks) {
  std::vector<std::string> words;
  for (const Action& action : actions) words.push_back(to_text(action, chunks));
  return fmt::format("{}", fmt::join(words, " "));
}

FRUGAL_LEFT_OUT(thread, "Schedules.*", "one thread");
TEST(Schedules, NamesAndKindsAreOneToOne) {
  for (const ScheduleKind& kind : ScheduleKind::all())
    EXPECT_EQ(schedule_kind(name_of(kind)), kind);
  EXPECT_EQ(schedule_kind("2BW"), std::nullopt);
}

/// Limits of what a stage may hold are what its schedule holds, and no more.
TEST(Schedules, LimitsOfWhatIsInFlightAreReached) {
  for_all_shapes([](const ScheduleKind& kind, const ScheduleShape& shape) {
    if (kind.placement != Placement::around) return;
    const Schedule schedule = make_schedule(kind, shape);
    for (int stage = 0; stage < shape.stages; ++stage)
      EXPECT_EQ(peak_in_flight(schedule.actions[static_cast<size_t>(stage)]),
                kind.in_flight(schedule.fill(stage)))
          << "stage " << stage;
  });
}

/// Their papers count what is held until the weights' gradients are there, on the fullest stage.
TEST(Schedules, PeaksOfThoseInAVAreThePapers) {
  struct Published {
    const ScheduleKind& kind;
    int (*microbatches)(int stages);  // in half a stage's part of the model each: two to a stage's
  };
  for (const Published& published : std::initializer_list<Published>{
           {ScheduleKind::zero_bubble_v, [](int p) { return 2 * p; }},
           {ScheduleKind::v_half, [](int p) { return 2 * ((p + 2) / 2); }},
           {ScheduleKind::v_min, [](int p) { return 2 * ((p + 4) / 3); }},
           {ScheduleKind::dual_pipe_v, [](int p) { return 2 * p + 1; }}})
    for (int stages = 2; stages <= 32; ++stages) {
      const Schedule schedule = make_schedule(
          published.kind, {.stages = stages, .chunks = 2, .microbatches = 2 * stages});
      double most = 0;
      for (const Actions& actions : schedule.actions)
        most = std::max(most, peak_activations(actions, 1, 1));
      EXPECT_EQ(most, published.microbatches(stages)) << published.kind.name << " " << stages;
      for (const Actions& actions : schedule.actions)
        EXPECT_LE(peak_in_flight(actions), published.kind.in_flight(schedule.fill(0)));
    }
}

TEST(Schedules, AKindSaysWhetherItSplitsBackwardPasses) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    EXPECT_EQ(splits_backward(make_schedule(kind, shape)), kind.splits_backward);
    if (shape.stages > 1) {
      EXPECT_EQ(makes_together(make_schedule(kind, shape)), kind.makes_together);
    }
  });
}

// Written out by hand from the papers' figures.
TEST(Schedules, SmallOnesAreThePapers) {
  struct Small {
    ScheduleKind kind;
    ScheduleShape shape;
    int stage;
    const char* actions;
  };
  const ScheduleShape two = {.stages = 2, .microbatches = 2};
  for (const auto& [kind, shape, stage, actions] : std::initializer_list<Small>{
           {ScheduleKind::gpipe, two, 0, "F0@0 F0> F1@0 F1> <B0 B0@0 <B1 B1@0 step@1"},
           {ScheduleKind::gpipe, two, 1, "<F0 F0@0 <F1 F1@0 B0@0 B0> B1@0 B1> step@1"},
           {ScheduleKind::one_forward_one_backward,
            {.stages = 2, .microbatches = 2, .batches = 2},
            1,
            "<F0 F0@0 B0@0 B0> <F1 F1@0 B1@0 B1> step@1 <F2 F2@1 B2@1 B2> <F3 F3@1 B3@1 B3> "
            "step@2"},
           {ScheduleKind::two_buffered,
            {.stages = 2, .microbatches = 2, .batches = 3},
            0,
            "F0@0 F0> F1@0 F1> <B0 B0@0 F2@0 F2> <B1 B1@0 step@1 F3@0 F3> <B2 B2@0 F4@1 F4> <B3 "
            "B3@0 step@2 F5@1 F5> <B4 B4@1 <B5 B5@1 step@3"},
           {ScheduleKind::pipedream,
            {.stages = 2, .batches = 3},
            0,
            "F0@0 F0> F1@0 F1> <B0 B0@0 step@1 F2@1 F2> <B1 B1@0 step@2 <B2 B2@1 step@3"},
           {ScheduleKind::pipedream,
            {.stages = 2, .batches = 3},
            1,
            "<F0 F0@0 B0@0 B0> step@1 <F1 F1@1 B1@1 B1> step@2 <F2 F2@2 B2@2 B2> step@3"},
           {ScheduleKind::zero_bubble_h1, two, 1,
            "<F0 F0@0 I0@0 B0> <F1 F1@0 I1@0 B1> W0@0 W1@0 step@1"},
           {ScheduleKind::interleaved,
            {.stages = 2, .chunks = 2, .microbatches = 2},
            1,
            "<F0.0 F0.0@0 F0.0> <F1.0 F1.0@0 F1.0> <F0.1 F0.1@0 B0.1@0 B0.1> <F1.1 F1.1@0 B1.1@0 "
            "B1.1> <B0.0 B0.0@0 B0.0> <B1.0 B1.0@0 B1.0> step@1"}})
    EXPECT_EQ(line(make_schedule(kind, shape).actions[static_cast<size_t>(stage)], shape.chunks),
              actions);
}

/// Forward and backward passes of one stage, as microbatch and chunk, from the definition of
/// Megatron-LM's schedule table: groups of microbatches go through all chunks in turn, backward in
/// the reverse order of chunks, and (chunks − 1) · group + 2 · (stages − 1 − stage) forward passes
/// come before the first backward pass.
std::vector<std::string> by_table(int stages, int chunks, int microbatches, int group, int stage) {
  std::vector<std::pair<int, int>> table;
  for (int first = 0; first < microbatches; first += group)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int k = first; k < std::min(first + group, microbatches); ++k)
        table.emplace_back(k, chunk);
  const size_t warm_up =
      std::min<size_t>((chunks - 1) * group + 2 * (stages - 1 - stage), table.size());
  std::vector<std::string> passes;
  const auto forward = [&](size_t i) {
    passes.push_back(fmt::format("F{}.{}", table[i].first, table[i].second));
  };
  const auto backward = [&](size_t i) {
    passes.push_back(fmt::format("B{}.{}", table[i].first, chunks - 1 - table[i].second));
  };
  for (size_t i = 0; i < warm_up; ++i) forward(i);
  for (size_t i = warm_up; i < table.size(); ++i) {
    forward(i);
    backward(i - warm_up);
  }
  for (size_t i = table.size() - warm_up; i < table.size(); ++i) backward(i);
  return passes;
}

TEST(Schedules, InterleavedIsMegatronsTableForAnyMicrobatches) {
  struct Shape {
    int stages, chunks, microbatches, group;
  };
  // Groups of as many as there are stages where they divide microbatches; otherwise PyTorch's, of
  // microbatches / (microbatches / stages, rounded down).
  for (const auto& [stages, chunks, microbatches, group] :
       std::initializer_list<Shape>{{4, 2, 8, 4},
                                    {4, 2, 5, 5},
                                    {4, 2, 10, 5},
                                    {4, 3, 2, 2},
                                    {3, 2, 7, 4},
                                    {8, 2, 1, 1},
                                    {4, 2, 14, 5},
                                    {3, 2, 9, 3},
                                    {6, 3, 16, 8}}) {
    const Schedule schedule =
        make_schedule(ScheduleKind::interleaved,
                      {.stages = stages, .chunks = chunks, .microbatches = microbatches});
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<std::string> passes;
      for (const Action& action : schedule.actions[static_cast<size_t>(stage)])
        if (is_pass(action.kind))
          passes.push_back(fmt::format("{}{}.{}", action.kind == ActionKind::forward ? "F" : "B",
                                       action.microbatch, action.chunk));
      EXPECT_EQ(passes, by_table(stages, chunks, microbatches, group, stage))
          << stages << " stages, " << microbatches << " microbatches, stage " << stage;
    }
  }
}

/// The version that a kind's forward uses, from closed forms: in 1F1B's order, stage s of d has
/// done max(k − (d − s) + 1, 0) backward passes when it comes to the k-th forward.
int expected_version(ScheduleKind kind, const ScheduleShape& shape, int stage, int microbatch) {
  const int k = microbatch - shape.first_batch * shape.microbatches;
  const auto newest = [&](int s) {
    return shape.first_batch + std::max(k - (shape.stages - s) + 1, 0) / shape.microbatches;
  };
  if (kind == ScheduleKind::pipedream) return newest(stage);
  if (kind == ScheduleKind::pipedream_vertical_sync) return newest(0);
  if (kind == ScheduleKind::two_buffered)  // the paper's microbatch counts from 1
    return std::max((microbatch + 1 - 1) / shape.microbatches - 1, 0);
  return microbatch / shape.microbatches;
}

TEST(Schedules, VersionsAreThePapersClosedForms) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(kind, shape);
    int wrong = 0;
    for (int stage = 0; stage < shape.stages; ++stage)
      for (const Action& action : schedule.actions[stage])
        if (is_pass(action.kind))
          wrong +=
              action.version != expected_version(kind, shape, stage, action.microbatch) ? 1 : 0;
    EXPECT_EQ(wrong, 0);
  });
}

TEST(Schedules, MovedAreThoseOfOtherBatches) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    ScheduleShape there = shape;
    there.first_batch = 7;
    EXPECT_EQ(moved_to(make_schedule(kind, shape), 7), make_schedule(kind, there));
    EXPECT_EQ(moved_to(make_schedule(kind, there), shape.first_batch), make_schedule(kind, shape));
  });
}

TEST(Schedules, MayReceiveBeforeTheyStep) {
  int moved = 0;
  for_all_shapes([&](ScheduleKind kind, const ScheduleShape& shape) {
    Schedule schedule = make_schedule(kind, shape);
    const Schedule before = schedule;
    receive_before_steps(schedule);
    EXPECT_TRUE(check(schedule).empty()) << check(schedule).front().describe();
    if (kind.flushes) {
      EXPECT_EQ(schedule, before);
      return;
    }
    for (const Actions& actions : schedule.actions)
      for (size_t i = 1; i < actions.size(); ++i) {
        const bool receives = actions[i].kind == ActionKind::receive_activation;
        EXPECT_FALSE(actions[i - 1].kind == ActionKind::step && receives);
        moved += receives && i + 1 < actions.size() && actions[i + 1].kind == ActionKind::step;
      }
  });
  EXPECT_GT(moved, 100);
}

TEST(Schedules, PeaksAreThePapers) {
  constexpr int d = 4, m = 8;
  for (int stage = 0; stage < d; ++stage) {
    const auto actions = [&](ScheduleKind kind, int microbatches = 8, int batches = 5) {
      return make_schedule(kind, {.stages = d, .microbatches = microbatches, .batches = batches})
          .actions[stage];
    };
    EXPECT_EQ(peak_in_flight(actions(ScheduleKind::inter_layer)), 1);
    EXPECT_EQ(peak_in_flight(actions(ScheduleKind::gpipe)), m);
    for (const auto& kind : {ScheduleKind::one_forward_one_backward, ScheduleKind::two_buffered,
                             ScheduleKind::pipedream, ScheduleKind::zero_bubble_h1})
      EXPECT_EQ(peak_in_flight(actions(kind)), d - stage) << name_of(kind);
    EXPECT_EQ(peak_in_flight(actions(ScheduleKind::one_forward_one_backward, 2)),
              std::min(d - stage, 2));
    EXPECT_EQ(peak_in_flight(actions(ScheduleKind::zero_bubble_h2)), 2 * (d - stage) - 1);
    EXPECT_EQ(peak_versions(actions(ScheduleKind::one_forward_one_backward), 0), 1);
    EXPECT_EQ(peak_versions(actions(ScheduleKind::two_buffered), 0), 2);
    EXPECT_EQ(peak_versions(actions(ScheduleKind::pipedream, 1, 20), 0), d - stage);
    EXPECT_EQ(peak_versions(actions(ScheduleKind::pipedream_vertical_sync, 1, 20), 0), d);
  }
}

TEST(Schedules, AVersionIsKeptFromItsStepToItsLastUse) {
  const Action forward = {ActionKind::forward, 0, 0, 0}, backward = {ActionKind::backward, 0, 0, 0};
  const Action step = {ActionKind::step, 0, -1, 1}, next = {ActionKind::step, 0, -1, 2};
  EXPECT_EQ(peak_versions({forward, backward, step, next}, 0), 1);
  EXPECT_EQ(peak_versions({forward, step, backward, next}, 0), 2);
  EXPECT_EQ(peak_versions({forward, step, next, backward}, 0), 2);  // nothing uses version 1
  EXPECT_EQ(peak_versions({forward, backward}, 1), 2);              // 1 was made before
}

// Qi et al., table 2 and the text under it, worker i = stage + 1.
TEST(Schedules, ZeroBubblePeakActivations) {
  const double whole = 34 + 5 * 24, for_weights = 32;  // table 1, of sbh, with a = 24, s = h
  for (int p = 1; p <= 8; ++p)
    for (int i = 1; i <= p; ++i) {
      const ScheduleShape shape = {.stages = p, .microbatches = 3 * p};
      const auto peak = [&](ScheduleKind kind) {
        return peak_activations(make_schedule(kind, shape).actions[i - 1], whole, for_weights);
      };
      EXPECT_EQ(peak(ScheduleKind::zero_bubble_h1), (p - i + 1) * whole + (i - 1) * for_weights);
      EXPECT_EQ(peak(ScheduleKind::zero_bubble_h2),
                (2 * p - 2 * i + 1) * whole + (2 * i - 2) * for_weights);
    }
}

TEST(Schedules, BadShapesAreRefusedWithTheRule) {
  struct Bad {
    ScheduleKind kind;
    ScheduleShape shape;
    const char* says;
  };
  const Bad shapes[] = {
      {ScheduleKind::two_buffered,
       {.stages = 4, .microbatches = 3},
       "microbatches (3) must be at least stages (4)"},
      {ScheduleKind::gpipe,
       {.stages = 4, .chunks = 2, .microbatches = 4},
       "chunks is 2; only interleaved"},
      {ScheduleKind::interleaved,
       {.stages = 4, .chunks = 1, .microbatches = 4},
       "chunks is 1; it must be at least 2"},
      {ScheduleKind::gpipe, {.stages = 0}, "schedule gpipe: stages is 0; it must be at least 1"},
      {ScheduleKind::gpipe, {.microbatches = -1}, "microbatches is -1"},
      {ScheduleKind::interleaved, {.chunks = 0}, "chunks is 0"},
      {ScheduleKind::gpipe, {.first_batch = -1}, "first batch is -1"},
      {ScheduleKind::gpipe, {.batches = 0}, "batches is 0"},
      {ScheduleKind::gpipe, {.stages = 1 << 20, .microbatches = 1 << 20}, "must be at most"},
      {ScheduleKind::gpipe, {.microbatches = 2, .first_batch = 1 << 30}, "too many to count"},
  };
  for (const Bad& bad : shapes) {
    EXPECT_THAT(message_of<InputError>([&] { (void)make_schedule(bad.kind, bad.shape); }),
                ::testing::HasSubstr(bad.says));
  }
}

}  // namespace
}  // namespace frugal::engine
