#include "harness/measure/runs/longest.h"

#include <algorithm>
#include <future>
#include <vector>

#include "engine/options/rules.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/training.h"
#include "harness/place/environment.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

bool is_valid(const RunConfig& config) {
  try {
    config.validate();
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// fits(first), fits(first + 1), …, each in a thread of its own.
std::vector<bool> try_all(int64_t first, int64_t count, const std::function<bool(int64_t)>& fits) {
  if (count == 1) return {fits(first)};
  std::vector<std::future<bool>> running;
  for (int64_t i = 0; i < count; ++i)
    running.push_back(std::async(std::launch::async, fits, first + i));
  std::vector<bool> all;
  for (auto& one : running) all.push_back(one.get());
  return all;
}

}  // namespace

Limit greatest_that_fits(int64_t most, int64_t least_refused,
                         const std::function<bool(int64_t)>& fits, int at_once) {
  int64_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  Limit limit{good, good < most ? 1 : 0};
  while (limit.refused < least_refused && limit.value + limit.refused < most) {
    const int64_t last = limit.value + limit.refused;
    const int64_t count = std::min({int64_t{at_once}, least_refused - limit.refused, most - last});
    int64_t next = last;
    for (const bool fit : try_all(last + 1, count, fits)) {
      ++next;
      if (fit)
        limit = {next, 0};
      else
        ++limit.refused;
    }
  }
  return limit;
}

int64_t StepOf::granularity() const {
  return int64_t{config.context_parallel} * (config.sequence_parallel ? config.tensor_parallel : 1);
}

RunConfig StepOf::with(int64_t tokens) const {
  RunConfig run = config;
  run.model.sequence = tokens;
  return run;
}

namespace {

/// A step at lengths that are multiples of `unit`.
struct Lengths {
  const StepOf& step;
  const Machine& machine;
  const int64_t unit = step.granularity();

  StepTaken take(int64_t tokens) const {
    stop_if_interrupted();
    const RunConfig run = step.with(tokens);
    return take_step(*make_virtual_cluster(run, machine), run, step.optimizer);
  }
  std::string why_not(int64_t tokens) const {
    try {
      take(tokens);
      return "";
    } catch (const OutOfMemory& error) {
      return error.what();
    }
  }
  Limit limit(int64_t least_refused) const {
    const int64_t most = greatest_that_fits(rules::most_tokens / unit, 0, [&](int64_t n) {
                           return is_valid(step.with(n * unit));
                         }).value;
    const auto fits = [&](int64_t n) { return why_not(n * unit).empty(); };
    return greatest_that_fits(most, least_refused, fits, usable_processors());
  }
};

/// The same with an allocator that loses memory to fragments: downward among the lengths of two
/// decimal digits, from what would fit without fragments.
void search_downward(const Lengths& lengths, LongestSequence& longest) {
  StepOf without = lengths.step;
  without.config.program.device.caching_allocator = false;
  const Limit limit = Lengths{without, lengths.machine}.limit(0);
  int64_t each = 1;
  while (limit.value >= 100 * each) each *= 10;
  longest.granularity *= each;
  const auto fits = [&](int64_t n) { return lengths.why_not(n * longest.granularity).empty(); };
  const int64_t most = limit.value / each;
  int64_t n = most;
  while (n > 0 && !fits(n)) --n;
  longest.tokens = n * longest.granularity;
  longest.refused = most - n + (limit.refused > 0 ? 1 : 0);
}

}  // namespace

LongestSequence longest_sequence(const StepOf& step, const Machine& machine) {
  const Lengths lengths{step, machine};
  LongestSequence longest;
  longest.granularity = lengths.unit;
  step.with(lengths.unit).validate();
  if (step.config.program.device.caching_allocator) {
    search_downward(lengths, longest);
  } else {
    const Limit limit = lengths.limit(lengths_refused);
    longest.tokens = limit.value * lengths.unit;
    longest.refused = limit.refused;
  }
  // Where none fits it says why.
  const StepTaken taken = lengths.take(std::max(longest.tokens, lengths.unit));
  if (!longest.at_least())
    longest.refused_because = lengths.why_not(longest.tokens + longest.granularity);
  longest.memory = taken.memory;
  longest.flops = taken.flops;
  return longest;
}

}  // namespace frugal::harness
