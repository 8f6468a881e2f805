#include "harness/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "harness/measure/interrupt.h"

namespace frugal::harness {
namespace {

const StoppingRule& rule_of(const TimingPlan& plan) {
  for (const StoppingRule& rule : stopping_rules())
    if (rule.name == plan.stop) return rule;
  throw std::invalid_argument("no stopping rule is called " + std::string(plan.stop));
}

}  // namespace

const std::vector<StoppingRule>& stopping_rules() {
  static const std::vector<StoppingRule> rules = {
      {"samples", "after as many rounds as --samples says, or at the end of the budget",
       [](const RoundsSoFar& rounds) {
         return rounds.kept >= rounds.plan.samples || rounds.seconds >= rounds.plan.budget;
       }},
      {"precision",
       "when every time is known to --precision, as a fraction of it, or at the end of the budget",
       [](const RoundsSoFar& rounds) {
         return rounds.seconds >= rounds.plan.budget ||
                (rounds.uncertainty && rounds.uncertainty() <= rounds.plan.precision);
       }}};
  return rules;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock,
                     const std::function<double()>& uncertainty) {
  const StoppingRule& rule = rule_of(plan);
  const double start = clock();
  for (int round = -plan.warm_up;; ++round) {
    if (round >= TimingPlan::minimum && rule.is_enough({plan, round, clock() - start, uncertainty}))
      return round;
    for (const auto& run : cases) {
      stop_if_interrupted();
      run(round >= 0);
    }
  }
}

}  // namespace frugal::harness
