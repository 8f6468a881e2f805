#include "harness/cli/timing_flags.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
  flags.number("--precision", timing.precision, 0, 1,
               "Half of a median time's 95 % interval that is small enough for --stop precision, "
               "as a fraction of the median");
}

std::string timing_flags(const TimingPlan& timing) {
  std::string flags = fmt::format(" --samples {} --budget {}", timing.samples, timing.budget);
  if (timing.stop != TimingPlan{}.stop) flags += fmt::format(" --stop {}", timing.stop);
  if (timing.stop == "precision") flags += fmt::format(" --precision {}", timing.precision);
  return flags;
}

}  // namespace frugal::harness
