#include "harness/cli/timing_flags.h"

#include <fmt/format.h>

namespace frugal::harness {

void add_timing_flags(Flags& flags, TimingPlan& timing) {
  std::vector<std::string> rules;
  std::string explained;
  for (const StoppingRule& rule : stopping_rules()) {
    rules.emplace_back(rule.name);
    explained += fmt::format("{}{}: {}", explained.empty() ? "" : "; ", rule.name, rule.help);
  }
  flags.integer("--samples", timing.samples, TimingPlan::minimum,
                "Timed rounds of each case on the cpu or GPUs", 1000000);
  flags.number("--budget", timing.budget, 0, 1e9,
               "Seconds after which no timed round beyond the tenth begins, of the cases that are "
               "timed together");
  flags.choice("--stop", timing.stop, rules, "When rounds end. " + explained);
  flags.number("--precision", timing.precision, 0, 1,
               "Half of a median time's 95 % interval that is small enough for --stop precision, "
               "as a fraction of the median");
}

std::string timing_flags(const TimingPlan& timing) {
  std::string flags = fmt::format(" --samples {} --budget {}", timing.samples, timing.budget);
  if (timing.stop != TimingPlan{}.stop)
    flags += fmt::format(" --stop {} --precision {}", timing.stop, timing.precision);
  return flags;
}

}  // namespace frugal::harness
