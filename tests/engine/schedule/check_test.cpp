#include "engine/schedule/check.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>

#include "kernels/support/error.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;

std::string described(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.describe() + "\n";
  return text;
}

FRUGAL_LEFT_OUT(thread, "Check.*", "one thread");
TEST(Check, FindsNothingInWhatIsMade) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(kind, shape);
    for (const int capacity : {0, 1, 4})
      EXPECT_EQ(described(check(schedule, capacity)), "") << "capacity " << capacity;
  });
}

using Random = std::mt19937;

int position(const Actions& actions, const Action& like) {
  return static_cast<int>(std::find_if(actions.begin(), actions.end(),
                                       [&](const Action& action) {
                                         return action.kind == like.kind &&
                                                action.chunk == like.chunk &&
                                                action.microbatch == like.microbatch;
                                       }) -
                          actions.begin());
}

/// A random action of a random stage that fits; −1 as the action where there is none.
std::pair<int, int> draw(const Schedule& schedule, Random& random,
                         const std::function<bool(const Action&)>& fits) {
  std::vector<std::pair<int, int>> found;
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int i = 0; i < static_cast<int>(schedule.actions[stage].size()); ++i)
      if (fits(schedule.actions[stage][i])) found.emplace_back(stage, i);
  return found.empty() ? std::pair{0, -1} : found[random() % found.size()];
}

bool any(const Action& /*action*/) { return true; }

/// Makes a schedule wrong and says true, or leaves it as it is where this cannot be done to it.
using Mutation = bool (*)(Schedule& schedule, Random& random);
struct NamedMutation {
  const char* name;
  Mutation make;
};

const NamedMutation mutations[] = {
    {"an action is dropped",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] = draw(schedule, random, any);
       schedule.actions[stage].erase(schedule.actions[stage].begin() + i);
       return true;
     }},
    {"an action is done twice",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] = draw(schedule, random, any);
       Actions& actions = schedule.actions[stage];
       const Action copy = actions[i];
       actions.insert(actions.begin() + static_cast<int>(random() % actions.size()), copy);
       return true;
     }},
    {"a backward and its forward change places",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] =
           draw(schedule, random, [](const Action& a) { return completes_gradient(a.kind); });
       Actions& actions = schedule.actions[stage];
       Action forward = actions[i];
       forward.kind = ActionKind::forward;
       std::swap(actions[i], actions[position(actions, forward)]);
       return true;
     }},
    {"two receives of a channel change places",
     [](Schedule& schedule, Random& random) {
       const auto receives = [](const Action& a) { return is_message(a.kind) && !is_send(a.kind); };
       const auto [stage, i] = draw(schedule, random, receives);
       if (i < 0) return false;
       Actions& actions = schedule.actions[stage];
       for (size_t j = i + 1; j < actions.size(); ++j)
         if (actions[j].kind == actions[i].kind) {
           std::swap(actions[i], actions[j]);
           return true;
         }
       return false;
     }},
    {"a pass uses another version",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] =
           draw(schedule, random, [](const Action& a) { return is_pass(a.kind); });
       schedule.actions[stage][i].version += random() % 2 == 0 ? 1 : -1;
       return true;
     }},
    {"all passes of a microbatch on a stage use another version",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] =
           draw(schedule, random, [](const Action& a) { return is_pass(a.kind); });
       const int microbatch = schedule.actions[stage][i].microbatch;
       const int by = random() % 2 == 0 ? 1 : -1;
       for (Action& action : schedule.actions[stage])
         if (is_pass(action.kind) && action.microbatch == microbatch) action.version += by;
       return true;
     }},
    {"a step comes before the last pass of its batch",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] =
           draw(schedule, random, [](const Action& a) { return a.kind == ActionKind::step; });
       Actions& actions = schedule.actions[stage];
       int last = i;
       while (!is_pass(actions[last].kind)) --last;
       std::rotate(actions.begin() + last, actions.begin() + i, actions.begin() + i + 1);
       return true;
     }},
    {"a message is another stage's",
     [](Schedule& schedule, Random& random) {
       const auto [stage, i] =
           draw(schedule, random, [](const Action& a) { return is_message(a.kind); });
       if (i < 0) return false;
       schedule.actions[stage][i].microbatch = schedule.end_microbatch();
       return true;
     }},
};

TEST(Check, RefusesEveryMutation) {
  Random random(7);
  for_all_shapes([&](ScheduleKind kind, const ScheduleShape& shape) {
    for (const NamedMutation& mutation : mutations) {
      Schedule schedule = make_schedule(kind, shape);
      if (!mutation.make(schedule, random)) continue;
      EXPECT_FALSE(check(schedule).empty()) << mutation.name;
    }
  });
}

/// 1F1B of two stages and two microbatches; stage 0: F0 F0> F1 F1> <B0 B0 <B1 B1 step,
/// stage 1: <F0 F0 B0 B0> <F1 F1 B1 B1> step.
Schedule small() {
  return make_schedule(ScheduleKind::one_forward_one_backward, {.stages = 2, .microbatches = 2});
}

TEST(Check, FindingsNameStageActionAndReason) {
  struct Case {
    std::function<void(std::vector<Actions>&)> make;
    const char* says;
  };
  const Case cases[] = {
      {[](auto& a) { a[1].erase(a[1].begin() + 4); },
       "stage 1, <F1: it is missing; it must be there once"},
      {[](auto& a) { std::swap(a[1][0], a[1][1]); },
       "stage 1, action 0 (F0@0): its activation is not received before it"},
      {[](auto& a) { std::rotate(a[0].begin() + 4, a[0].begin() + 6, a[0].begin() + 8); },
       "stage 0, action 4 (<B1): stage 1 sends <B0 at its turn"},
      {[](auto& a) { a[0][2].version = 1; },
       "stage 0, action 2 (F1@1): version 1 is not made yet; the newest is 0"},
      {[](auto& a) { a[0][7].version = 1; },
       "stage 0, action 7 (B1@1): its forward used version 0"},
      {[](auto& a) { a[0][8].version = 2; },
       "stage 0, action 8 (step@2): this step makes version 1"},
      {[](auto& a) { a[1].back() = a[1].front(); }, "stage 1, action 8 (<F0): it was done before"},
      {[](auto& a) { a[1].pop_back(); }, "stage 1: it has 0 steps; it needs one for each of 1 b"},
      {[](auto& a) { std::swap(a[0][7], a[0][8]); },
       "stage 0, action 7 (step@1): B1@0 of its batch comes after it, as action 8"},
      {[](auto& a) { a[0][0].chunk = 1; }, "stage 0, action 0 (F0@0): there is no chunk 1"},
      {[](auto& a) { a[0][0].microbatch = 2; },
       "there is no microbatch 2; these batches' are 0 to 1"},
      {[](auto& a) { a[0][0].kind = ActionKind::receive_activation; }, "a message has no version"},
      {[](auto& a) {
         a[1].push_back({ActionKind::send_activation, 0, 0, -1});
       },
       "stage 1, action 9 (F0>): the model ends here"},
      {[](auto& a) { a.pop_back(); }, "there are actions of 1 stages; there are 2 stages"},
  };
  for (const Case& wrong : cases) {
    Schedule schedule = small();
    wrong.make(schedule.actions);
    EXPECT_THAT(described(check(schedule)), HasSubstr(wrong.says));
  }
}

/// Each order that must hold within a stage, alone: what comes first is moved behind what needs it.
TEST(Check, HoldsEveryOrderWithinAStage) {
  const ScheduleKind& whole = ScheduleKind::one_forward_one_backward;
  const ScheduleKind& split = ScheduleKind::zero_bubble_h1;
  struct Case {
    ScheduleKind kind;
    ActionKind first, second;
    const char* says;
  };
  using enum ActionKind;
  const Case cases[] = {
      {whole, forward, backward, "(B1@0): its forward does not precede it"},
      {split, forward, input_backward, "(I1@0): its forward does not precede it"},
      {split, input_backward, weight_backward, "(W1@0): its input backward does not precede it"},
      {whole, receive_activation, forward, "(F1@0): its activation is not received before it"},
      {whole, receive_gradient, backward, "(B1@0): its gradient is not received before it"},
      {split, receive_gradient, input_backward, "(I1@0): its gradient is not received before it"},
      {whole, forward, send_activation, "(F1>): what it sends is not computed before it"},
      {whole, backward, send_gradient, "(B1>): what it sends is not computed before it"},
      {split, input_backward, send_gradient, "(B1>): what it sends is not computed before it"},
  };
  for (const Case& c : cases) {
    Schedule schedule = make_schedule(c.kind, {.stages = 3, .microbatches = 3});
    Actions& actions = schedule.actions[1];
    const auto place = [&](ActionKind kind) {
      return actions.begin() + position(actions, {.kind = kind, .microbatch = 1});
    };
    const auto from = place(c.first), to = place(c.second);
    ASSERT_LT(from - actions.begin(), to - actions.begin()) << c.says;
    std::rotate(from, from + 1, to + 1);
    const std::string found = described(check(schedule));
    EXPECT_THAT(found, HasSubstr("stage 1, action ")) << c.says;
    EXPECT_THAT(found, HasSubstr(c.says));
  }
}

TEST(Check, ACycleSaysTheActionsInIt) {
  Schedule schedule = small();
  // Stage 0 waits for the first gradient before its second forward, which stage 1 waits for before
  // its first backward.
  Actions& first = schedule.actions[0];
  std::rotate(first.begin() + 2, first.begin() + 4, first.begin() + 6);
  Actions& last = schedule.actions[1];
  std::rotate(last.begin() + 2, last.begin() + 4, last.begin() + 6);
  const std::string text = described(check(schedule));
  EXPECT_THAT(text, HasSubstr("waits for itself"));
  for (const char* action : {"F1> (stage 0, action 5)", "<F1 (stage 1, action 2)",
                             "B0> (stage 1, action 5)", "<B0 (stage 0, action 2)"})
    EXPECT_THAT(text, HasSubstr(action));
}

/// Receives all just before the pass that needs it.
void receive_late(Actions& actions) {
  const auto is_receive = [](const Action& action) {
    return is_message(action.kind) && !is_send(action.kind);
  };
  Actions receives;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(receives), is_receive);
  std::erase_if(actions, is_receive);
  for (const Action& receive : receives) {
    const ActionKind needs =
        receive.kind == ActionKind::receive_activation ? ActionKind::forward : ActionKind::backward;
    actions.insert(actions.begin() + position(actions, {.kind = needs,
                                                        .chunk = receive.chunk,
                                                        .microbatch = receive.microbatch}),
                   receive);
  }
}

TEST(Check, CapacityBoundsWhatIsOnItsWay) {
  // A ring of two stages, all forwards first: stage 0 sends six activations before it receives
  // the first one back, where it receives that as late as it can.
  Schedule schedule = {.kind = ScheduleKind::interleaved,
                       .stages = 2,
                       .chunks = 2,
                       .microbatches = 6,
                       .actions = std::vector<Actions>(2)};
  for (Actions& actions : schedule.actions) {
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
      for (int i = 0; i < 12; ++i)
        actions.push_back({kind, kind == ActionKind::forward ? i / 6 : 1 - i / 6, i % 6, 0});
    actions.push_back({.kind = ActionKind::step, .version = 1});
  }
  add_messages(schedule);
  const std::string deadlock = "waits for itself, with channels of ";
  EXPECT_THAT(described(check(schedule, 0)), Not(HasSubstr(deadlock)));
  for (Actions& actions : schedule.actions) receive_late(actions);
  EXPECT_THAT(described(check(schedule, 0)), HasSubstr(deadlock + "0"));
  EXPECT_THAT(described(check(schedule, 1)), HasSubstr(deadlock + "1"));
  EXPECT_THAT(described(check(schedule, 2)), Not(HasSubstr(deadlock)));
  EXPECT_THROW(check(schedule, -1), InputError);
}

/// Moves an action of a stage to another place in its list.
void move(Actions& actions, int from, int to) {
  const auto at = [&](int i) { return actions.begin() + i; };
  if (from < to)
    std::rotate(at(from), at(from + 1), at(to + 1));
  else
    std::rotate(at(to), at(from), at(from + 1));
}

TEST(Check, StagesMeetInTheirSteps) {
  // Stage 1 sends its last gradient after its step, which waits for stage 0's, which needs it.
  Schedule schedule = small();
  move(schedule.actions[1], 7, 8);
  const std::string text = described(check(schedule));
  for (const char* action : {"waits for itself", "step@1 (stage 0, action 8)",
                             "step@1 (stage 1, action 7)", "B1> (stage 1, action 8)"})
    EXPECT_THAT(text, HasSubstr(action));
}

TEST(Check, OneMessageToASideIsOnItsWay) {
  // Stage 0 makes all forwards before it receives the first gradient, and stage 1 sends one after
  // each forward: its second waits for the first, and so does all that stage 1 does then.
  Schedule schedule = make_schedule(ScheduleKind::gpipe, {.stages = 2, .microbatches = 4});
  schedule.actions[1] =
      make_schedule(ScheduleKind::one_forward_one_backward, {.stages = 2, .microbatches = 4})
          .actions[1];
  EXPECT_THAT(described(check(schedule, 0)), HasSubstr("waits for itself"));
  EXPECT_EQ(described(check(schedule, 1)), "");
}

TEST(Check, HoldsTheKindsLimits) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, {.stages = 2, .microbatches = 4});
  schedule.kind = ScheduleKind::one_forward_one_backward;
  EXPECT_THAT(described(check(schedule)),
              HasSubstr("stage 0: it holds up to 4 microbatches at once; 1f1b allows it 2"));
  // PipeDream's versions on 2BW's passes.
  schedule = make_schedule(ScheduleKind::pipedream, {.stages = 2, .microbatches = 2, .batches = 4});
  schedule.kind = ScheduleKind::two_buffered;
  EXPECT_THAT(described(check(schedule)), HasSubstr("2bw uses version"));
}

/// The last stage of PipeDream keeps one version: a forward too early uses one that its backward
/// does not find.
TEST(Check, AVersionThatIsGoneIsNotUsed) {
  Schedule schedule =
      make_schedule(ScheduleKind::pipedream, {.stages = 2, .microbatches = 1, .batches = 3});
  Actions& last = schedule.actions[1];
  move(last, position(last, {.kind = ActionKind::receive_activation, .microbatch = 1}), 2);
  move(last, position(last, {.kind = ActionKind::forward, .microbatch = 1}), 3);
  assign_versions(schedule);
  EXPECT_THAT(described(check(schedule)),
              HasSubstr("(B1@0): version 0 is gone: 1 versions are kept here and the newest is 1"));
}

TEST(Check, RequireValidRefusesInOneLine) {
  Schedule schedule = small();
  require_valid(schedule, "mine.txt");
  schedule.actions[1].erase(schedule.actions[1].begin() + 4);
  EXPECT_EQ(message_of<InputError>([&] { require_valid(schedule, "mine.txt"); }),
            "mine.txt: stage 1, <F1: it is missing; it must be there once");
}

TEST(Check, OfMillionsThatAreMissingSomeAreFound) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, {});
  schedule.microbatches = most_passes;
  EXPECT_EQ(check(schedule).size(), most_findings);
  EXPECT_THAT(message_of<InputError>([&] { require_valid(schedule, "mine.txt"); }),
              HasSubstr("(and 999 more at least)"));
}

}  // namespace
}  // namespace frugal::engine
