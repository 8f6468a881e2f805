#include "engine/schedule/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/support/json_file.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"
#include "tests/support/source_dir.h"

namespace frugal::engine {
namespace {

// The paper's figures: passes as [F or B, microbatch counted from 1, begin, end], cut at 23.
constexpr double cut = 23;

nlohmann::json drawn(const Timeline& timeline) {
  nlohmann::json workers = nlohmann::json::array();
  for (const auto& spans : timeline.stages) {
    workers.push_back(nlohmann::json::array());
    for (const Span& span : spans)
      if (is_pass(span.action.kind) && span.begin < cut)
        workers.back().push_back({span.action.kind == ActionKind::forward ? "F" : "B",
                                  span.action.microbatch + 1, span.begin, std::min(span.end, cut)});
  }
  return workers;
}

struct Figure {
  const char* name;
  ScheduleKind kind;
  ScheduleShape shape;
};

FRUGAL_LEFT_OUT(thread, "Timeline.*", "one thread");
TEST(Timeline, IsThePapersFiguresCellForCell) {
  const Figure figures[] = {
      {"figure1a", ScheduleKind::gpipe, {.stages = 4, .microbatches = 4, .batches = 2}},
      {"figure1b", ScheduleKind::pipedream, {.stages = 4, .batches = 12}},
      {"figure2", ScheduleKind::two_buffered, {.stages = 4, .microbatches = 4, .batches = 3}},
      {"figure3a", ScheduleKind::gpipe, {.stages = 2, .microbatches = 4, .batches = 2}},
      {"figure3b",
       ScheduleKind::one_forward_one_backward,
       {.stages = 2, .microbatches = 4, .batches = 2}},
  };
  const nlohmann::json golden =
      load_json(testing::source_dir() + "/experiments/pipedream2bw2021/paper.json").at("artifacts");
  for (const Figure& figure : figures) {
    const bool late = figure.kind != ScheduleKind::gpipe;
    const Schedule schedule = make_schedule(figure.kind, figure.shape);
    EXPECT_EQ(drawn(simulate(schedule, {}, late)), golden.at(figure.name).at("workers"))
        << figure.name;
  }
}

/// Number of forwards that begin before what the part before them made could be there.
int too_early(const Timeline& timeline, double activation) {
  std::map<std::pair<int, int>, Span> forwards;  // of each part and microbatch
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage)
    for (const Span& span : timeline.stages[stage])
      if (span.action.kind == ActionKind::forward)
        forwards[{timeline.layout().part_at({static_cast<int>(stage), span.action.chunk}),
                  span.action.microbatch}] = span;
  const auto stage_of = [&](int part) { return timeline.layout().seat_of(part).stage; };
  int wrong = 0;
  for (const auto& [of, span] : forwards) {
    const auto before = forwards.find({of.first - 1, of.second});
    const bool travels = of.first > 0 && stage_of(of.first) != stage_of(of.first - 1);
    const double way = travels ? activation : 0;
    wrong += before != forwards.end() && span.begin < before->second.end + way - 1e-9 ? 1 : 0;
  }
  return wrong;
}

TEST(Timeline, LateWarmUpMovesNothingElse) {
  const Durations durations = {.forward = 1, .backward = 1.75, .activation = 0.25, .gradient = 0.5};
  for_all_shapes([&](ScheduleKind kind, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(kind, shape);
    const Timeline soon = simulate(schedule, durations), late = simulate(schedule, durations, true);
    int wrong = too_early(soon, durations.activation) + too_early(late, durations.activation);
    for (int stage = 0; stage < shape.stages; ++stage) {
      double free = 0;
      for (size_t i = 0; i < soon.stages[stage].size(); ++i) {
        const Span &a = soon.stages[stage][i], &b = late.stages[stage][i];
        if (is_message(a.action.kind)) continue;
        const bool forward = a.action.kind == ActionKind::forward;
        // Of two that are made together, both begin when the first does.
        const bool second = i > 0 && soon.stages[stage][i - 1].action.beside_next;
        const bool overlaps = b.begin < free && !second;
        wrong += b.begin < a.begin || (b.begin > a.begin && !forward) || overlaps ? 1 : 0;
        free = b.end;
      }
    }
    EXPECT_EQ(wrong, 0);
  });
}

/// Time from the first to the last of a stage's passes, without the passes: Qi et al., table 5.
double longest_stage(const Timeline& timeline) {
  double longest = 0;
  for (const Bubble& bubble : bubbles(timeline))
    longest = std::max(longest, bubble.stalls + bubble.communication);
  return longest;
}

TEST(Timeline, BubblesAreThePapers) {
  for (int p = 1; p <= 8; ++p) {
    const auto of = [&](ScheduleKind kind, int m, const Durations& durations, int chunks = 1) {
      return simulate(make_schedule(kind, {.stages = p, .chunks = chunks, .microbatches = m}),
                      durations);
    };
    // (p − 1) of the p + m − 1 slots of a forward and a backward.
    for (const int m : {p, 2 * p, 3 * p})
      for (const auto& kind : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward}) {
        for (const Bubble& bubble : bubbles(of(kind, m, {})))
          EXPECT_DOUBLE_EQ(bubble.idle_fraction(), (p - 1.0) / (m + p - 1));
        EXPECT_DOUBLE_EQ(idle_over_busy(of(kind, m, {})), (p - 1.0) / m);
      }
    // Narayanan et al. 2021: v chunks divide it by v.
    for (const Bubble& bubble : bubbles(of(ScheduleKind::interleaved, 2 * p, {}, 2)))
      EXPECT_DOUBLE_EQ(bubble.idle() / bubble.busy, (p - 1.0) / (2 * 2 * p));
    // Qi et al., table 2, T_F = T_B = T_W.
    const Durations equal = {
        .forward = 1, .backward = 2, .input_backward = 1, .weight_backward = 1};
    for (const int m : {2 * p - 1, 2 * p, 4 * p}) {
      EXPECT_EQ(longest_stage(of(ScheduleKind::one_forward_one_backward, m, equal)),
                (p - 1) * (1 + 1 + 1));
      EXPECT_EQ(longest_stage(of(ScheduleKind::zero_bubble_h1, m, equal)), (p - 1) * (1 + 1 - 1));
      EXPECT_EQ(longest_stage(of(ScheduleKind::zero_bubble_h2, m, equal)), (p - 1) * (1 + 1 - 2));
      if (m < 2 * p - 1 || p == 1) continue;
      EXPECT_EQ(longest_stage(of(ScheduleKind::zero_bubble_v, m, equal, 2)), 0);
      // Qi et al. 2024b, table 1: about p / 2m and 2p / 3m of 3m.
      EXPECT_NEAR(longest_stage(of(ScheduleKind::v_half, m, equal, 2)), 1.5 * p, 1.5);
      EXPECT_NEAR(longest_stage(of(ScheduleKind::v_min, m, equal, 2)), 2 * p, 3);
      if (m < 2 * p) continue;
      // DeepSeek-AI 2024, of half as many stages: (p − 1)(F&B + B − 3 W), at most.
      EXPECT_LE(longest_stage(of(ScheduleKind::dual_pipe_v, m, equal, 2)),
                (p - 1) * (3 + 2 - 3) / 2.0);
      if (m % p > 0) continue;
      // As zb-h1's, of passes that are half as long.
      EXPECT_EQ(longest_stage(of(ScheduleKind::interleaved_zero_bubble, m, equal, 2)),
                (p - 1) * (1 + 1 - 1) / 2.0);
    }
  }
}

TEST(Timeline, WithoutAFlushNoStageWaitsAfterTheFill) {
  const int d = 4, m = 4, batches = 50;
  const auto stalls = [&](ScheduleKind kind, int count) {
    const ScheduleShape shape = {.stages = d, .microbatches = m, .batches = count};
    double most = 0;
    for (const Bubble& bubble : bubbles(simulate(make_schedule(kind, shape))))
      most = std::max(most, bubble.stalls);
    return most;
  };
  EXPECT_EQ(stalls(ScheduleKind::two_buffered, batches), stalls(ScheduleKind::two_buffered, 2));
  EXPECT_GT(stalls(ScheduleKind::one_forward_one_backward, batches),
            20 * stalls(ScheduleKind::one_forward_one_backward, 2));
}

TEST(Timeline, AccountsForAllTime) {
  const Durations durations = {.forward = 1, .activation = 0.25, .gradient = 0.5, .step = 0.125};
  for_all_shapes([&](ScheduleKind kind, const ScheduleShape& shape) {
    const Timeline timeline = simulate(make_schedule(kind, shape), durations);
    for (const Bubble& bubble : bubbles(timeline)) {
      EXPECT_NEAR(bubble.total(), timeline.end() - timeline.begin(), 1e-9);
      for (const double part :
           {bubble.busy, bubble.start_up, bubble.drain, bubble.communication, bubble.stalls})
        EXPECT_GE(part, -1e-9);
    }
  });
}

// By hand: two stages, one microbatch, both messages take time.
//   stage 0: F 0–1 …………………………………… B 5.5–7.5 step 7.5–8
//   stage 1:   1.5 F 1.5–2.5 B 2.5–4.5 step 4.5–5, while the gradient travels 4.5–5.5
TEST(Timeline, TellsCommunicationFromStalls) {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, {.stages = 2});
  const auto stages = bubbles(simulate(schedule, {.activation = 0.5, .gradient = 1, .step = 0.5}));
  EXPECT_EQ(stages[0].busy, 3.5);
  EXPECT_EQ(stages[0].start_up, 0);
  EXPECT_EQ(stages[0].stalls, 3.5);
  EXPECT_EQ(stages[0].communication, 1);
  EXPECT_EQ(stages[0].drain, 0);
  EXPECT_EQ(stages[1].start_up, 1.5);
  EXPECT_EQ(stages[1].stalls, 0);
  EXPECT_EQ(stages[1].communication, 0);
  EXPECT_EQ(stages[1].drain, 3);
}

}  // namespace
}  // namespace frugal::engine
