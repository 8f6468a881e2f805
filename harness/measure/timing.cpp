#include "harness/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "harness/measure/interrupt.h"
#include "harness/measure/statistics.h"

namespace frugal::harness {
namespace {

const StoppingRule& rule_of(const TimingPlan& plan) {
  for (const StoppingRule& rule : stopping_rules())
    if (rule.name == plan.stop) return rule;
  throw std::invalid_argument("no stopping rule is called " + std::string(plan.stop));
}

bool is_look(const RoundsSoFar& rounds) {
  int64_t kept = rounds.plan.samples;
  for (int look = 0; look < most_looks; ++look, kept *= 2)
    if (rounds.kept == kept) return true;
  return false;
}

}  // namespace

const std::vector<StoppingRule>& stopping_rules() {
  static const std::vector<StoppingRule> rules = {
      {"samples", "after as many rounds as --samples says, or at the end of the budget", false,
       [](const RoundsSoFar& rounds) {
         return rounds.kept >= rounds.plan.samples || rounds.seconds >= rounds.plan.budget;
       }},
      {"precision",
       "when every time is known to --precision, as a fraction of it, or at the end of the budget",
       false,
       [](const RoundsSoFar& rounds) {
         return rounds.seconds >= rounds.plan.budget ||
                (rounds.uncertainty && rounds.uncertainty() <= rounds.plan.precision);
       }},
      {"decided",
       "when no verdict is undecided, as seen after --samples rounds and whenever there are twice "
       "as many, or at the end of the budget",
       true, [](const RoundsSoFar& rounds) {
         return rounds.seconds >= rounds.plan.budget ||
                (is_look(rounds) && (!rounds.decided || rounds.decided()));
       }}};
  return rules;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock,
                     const std::function<double()>& uncertainty,
                     const std::function<bool()>& decided) {
  const StoppingRule& rule = rule_of(plan);
  const double start = clock();
  for (int round = -plan.warm_up;; ++round) {
    if (round >= TimingPlan::minimum &&
        rule.is_enough({plan, round, clock() - start, uncertainty, decided}))
      return round;
    for (const auto& run : cases) {
      stop_if_interrupted();
      run(round >= 0);
    }
  }
}

}  // namespace frugal::harness
