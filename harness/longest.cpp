#include "harness/longest.h"

#include "engine/config_rules.h"
#include "harness/interrupt.h"
#include "harness/training.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

bool is_valid(const RunConfig& config) {
  try {
    config.validate();
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

Limit greatest_that_fits(int64_t most, int64_t least_refused,
                         const std::function<bool(int64_t)>& fits) {
  int64_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  Limit limit{good, good < most ? 1 : 0};
  while (limit.refused < least_refused && limit.value + limit.refused < most) {
    const int64_t next = limit.value + limit.refused + 1;
    if (fits(next))
      limit = {next, 0};
    else
      ++limit.refused;
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

LongestSequence longest_sequence(const StepOf& step, const Machine& machine) {
  LongestSequence longest;
  longest.granularity = step.granularity();
  const int64_t unit = longest.granularity;
  step.with(unit).validate();
  const int64_t most = greatest_that_fits(rules::most_tokens / unit, 0, [&](int64_t n) {
                         return is_valid(step.with(n * unit));
                       }).value;
  const auto take = [&](int64_t tokens) {
    stop_if_interrupted();
    const RunConfig run = step.with(tokens);
    const StepTaken taken = take_step(*make_virtual_cluster(run, machine), run, step.optimizer);
    if (tokens > longest.tokens) {
      longest.tokens = tokens;
      longest.memory = taken.memory;
      longest.flops = taken.flops;
    }
  };
  longest.refused = greatest_that_fits(most, lengths_refused, [&](int64_t n) {
                      try {
                        take(n * unit);
                        return true;
                      } catch (const OutOfMemory&) {
                        return false;
                      }
                    }).refused;
  if (longest.tokens == 0) take(unit);  // says what is missing
  return longest;
}

}  // namespace frugal
