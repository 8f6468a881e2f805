#include "harness/cli/timing_flags.h"

#include <fmt/format.h>

namespace frugal::harness {

void add_timing_flags(Flags& flags, TimingPlan& timing, Judges judges) {
  std::vector<std::string> rules;
  std::string explained;
  for (const StoppingRule& rule : stopping_rules()) {
    if (rule.of_verdicts && judges == Judges::nothing) continue;
    rules.emplace_back(rule.name);
    explained += fmt::format("{}{}: {}", explained.empty() ? "" : "; ", rule.name, rule.help);
  }
  flags.integer("--samples", timing.samples, TimingPlan::minimum,
                "Timed rounds of each case on the cpu or GPUs", 1000000);
  flags.number("--budget", timing.budget, 0, 1e9,
               "Seconds after which no timed round beyond the tenth begins, of the cases that are "
               "timed together");
  flags.value("--stop", one_of(rules), std::string(timing.stop), "When rounds end. " + explained,
              [&timing, type = one_of(rules)](const std::string& text) {
                const auto name = type.value("--stop", text).get<std::string>();
                for (const StoppingRule& rule : stopping_rules())
                  if (rule.name == name) timing.stop = rule.name;
              });
  flags.toggle("--steady", timing.steady,
               fmt::format("A turn of a case on the cpu or GPUs goes on for {} s; a sample is the "
                           "mean of its executions, those of the first {} s left out. At least {} "
                           "rounds are timed",
                           timing.block, timing.settling, TimingPlan::steady_minimum));
  flags.integer("--order-seed", timing.order_seed, 0,
                "Seed from which the order of the cases of each round is drawn; without it a new "
                "one, which records have");
  flags.number("--precision", timing.precision, 0, 1,
               "Half of a median time's 95 % interval that is small enough for --stop precision, "
               "as a fraction of the median");
}

std::string timing_flags(const TimingPlan& timing) {
  std::string flags = fmt::format(" --samples {} --budget {}", timing.samples, timing.budget);
  if (timing.stop != TimingPlan{}.stop) flags += fmt::format(" --stop {}", timing.stop);
  if (timing.steady) flags += " --steady";
  if (timing.order_seed) flags += fmt::format(" --order-seed {}", *timing.order_seed);
  if (timing.stop == "precision") flags += fmt::format(" --precision {}", timing.precision);
  return flags;
}

}  // namespace frugal::harness
