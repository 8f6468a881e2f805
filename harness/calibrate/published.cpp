#include "harness/calibrate/published.h"

#include <fmt/format.h>

namespace frugal::harness {
namespace {

PublishedMachine::HeldOutErrors errors_held_out(const Artifact& artifact, const Machine& machine,
                                                const Program& program) {
  PublishedMachine::HeldOutErrors found{artifact.id(), {}, 0};
  const Records records = run_on(machine, artifact, cases_on(artifact, machine.name, program));
  double sum = 0;
  for (const Cell& cell : compared_cells(artifact, records)) {
    found.errors.add(cell);
    if (is_timed(cell.unit)) sum += cell.error_percent().value_or(0);
  }
  if (found.errors.percent.cells > 0)
    found.longer = sum / static_cast<double>(found.errors.percent.cells);
  return found;
}

PublishedMachine fitted_again(const FittedMachine& fitted,
                              const std::map<std::string, double>& values,
                              const std::string& source) {
  const FittedMachine changed = fitted.as_if(values);
  const Refit again = refit(changed);
  PublishedMachine made{values, source, {}, again.rms_refitted, {}};
  for (const FittedParameter& parameter : again.parameters)
    made.fitted[parameter.key] = parameter.refitted;
  for (const Artifact* artifact : fitted.held_out()) {
    auto errors =
        errors_held_out(*artifact, changed.with(made.fitted), fitted.machine().fit.program);
    if (errors.errors.percent.cells > 0) made.held_out.push_back(std::move(errors));
  }
  return made;
}

/// Of each number the value with which the first artifact takes least (`sign` 1) or most (−1).
std::map<std::string, double> extreme(const Published& found, double sign) {
  std::map<std::string, double> values;
  if (found.file.held_out.empty()) return values;
  std::map<std::string, double> best;
  for (const PublishedMachine& other : found.others) {
    const auto& [key, value] = *other.values.begin();
    const double longer = sign * other.held_out.front().longer;
    const double so_far =
        best.try_emplace(key, sign * found.file.held_out.front().longer).first->second;
    if (longer >= so_far) continue;
    best[key] = longer;
    values[key] = value;
  }
  return values;
}

}  // namespace

size_t machines_of_published(const FittedMachine& fitted) {
  size_t all = 3;  // the file's, the shortest and the longest
  for (const Machine::Parameter& parameter : fitted.machine().parameters)
    all += parameter.others.size();
  return all;
}

Published published(const FittedMachine& fitted,
                    const std::function<void(const std::string&)>& done) {
  Published found;
  found.file = fitted_again(fitted, {}, "");
  done("the file's values");
  for (const Machine::Parameter& parameter : fitted.machine().parameters)
    for (const Machine::Other& other : parameter.others) {
      found.others.push_back(fitted_again(fitted, {{parameter.key, other.value}}, other.source));
      done(fmt::format("{} = {:.4g}", parameter.key, other.value));
    }
  found.shortest = fitted_again(fitted, extreme(found, 1), "");
  done("the shortest times");
  found.longest = fitted_again(fitted, extreme(found, -1), "");
  done("the longest times");
  return found;
}

}  // namespace frugal::harness
