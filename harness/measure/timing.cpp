#include "harness/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <numeric>
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

RoundOrder::RoundOrder(size_t cases, uint32_t seed) : random_(seed), order_(cases) {
  std::iota(order_.begin(), order_.end(), 0);
}

const std::vector<size_t>& RoundOrder::next() {
  reversed_ = !reversed_;
  if (reversed_) {
    std::reverse(order_.begin(), order_.end());
  } else {
    // Not std::shuffle, whose result depends on the library.
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
  }
  return order_;
}

void steady_turn(const TimingPlan& plan, const std::function<bool(bool keep)>& execute,
                 const std::function<double()>& clock) {
  const double begun = clock();
  bool kept = false;
  // An execution that takes longer than the block settles the device, and the next one counts.
  for (double now = begun; now < begun + plan.block || !kept; now = clock()) {
    kept = now >= begun + plan.settling;
    if (!execute(kept)) return;
  }
}

int time_interleaved(const std::vector<std::function<void(bool keep)>>& cases,
                     const TimingPlan& plan, const std::function<double()>& clock,
                     const std::function<double()>& uncertainty,
                     const std::function<bool()>& decided) {
  const StoppingRule& rule = rule_of(plan);
  RoundOrder order(cases.size(), plan.order_seed.value_or(1));
  const double start = clock();
  for (int round = -plan.warm_up;; ++round) {
    if (round >= plan.least_rounds() &&
        rule.is_enough({plan, round, clock() - start, uncertainty, decided}))
      return round;
    for (const size_t i : order.next()) {
      stop_if_interrupted();
      cases[i](round >= 0);
    }
  }
}

}  // namespace frugal::harness
