#include "harness/calibrate/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "harness/measure/statistics.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// work(0) … work(n − 1), each once, by so many threads. What one throws ends all, and is thrown.
void side_by_side(size_t n, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex guard;
  const auto run = [&] {
    try {
      for (size_t i = next++; i < n; i = next++) work(i);
    } catch (...) {
      const std::scoped_lock lock(guard);
      if (!error) error = std::current_exception();
      next = n;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

double seconds_of(const Record& record) {
  double sum = 0;
  for (const char* name : {metric::forward_time, metric::backward_time, metric::step_time})
    if (const auto& samples = record.samples(name); !samples.empty()) sum += median(samples);
  return sum;
}

ArtifactOnMachine observe(const Artifact& artifact, const Machine& machine,
                          const Program& program) {
  const Records records = run_on(machine, artifact, cases_on(artifact, machine.name, program));
  ArtifactOnMachine seen;
  for (const Cell& cell : compared_cells(artifact, records)) {
    seen.errors.add(cell);
    if (const auto seconds = seconds_of(cell))
      seen.seconds[cell.row + ", " + cell.column] = *seconds;
  }
  if (!seen.seconds.empty()) return seen;
  for (const Record& record : records.all())
    if (record.ok() && seconds_of(record) > 0) seen.seconds[record.case_id] = seconds_of(record);
  return seen;
}

/// The value to try, or why there is none.
Varied varied(const FittedMachine& fitted, const Machine::Parameter& parameter, double factor) {
  Varied made{factor * parameter.value, {}, {}};
  if (parameter.whole) made.value = std::round(made.value);
  if (made.value == parameter.value)
    made.reason = "a tenth of it rounds to nothing";
  else if (made.value > parameter.most)
    made.reason = fmt::format("{:.4g} is more than {}", made.value, parameter.most);
  if (!made.reason.empty()) return made;
  try {
    fitted.with({{parameter.key, made.value}});
  } catch (const InputError& error) {
    made.reason = error.what();
  }
  return made;
}

struct Task {
  const Machine::Parameter* parameter;  ///< null: the file's values
  Varied* into;
};

std::vector<const Artifact*> all_of(const FittedMachine& fitted) {
  std::vector<const Artifact*> all = fitted.fitted_to();
  for (const Artifact* artifact : fitted.held_out())
    if (std::find(all.begin(), all.end(), artifact) == all.end()) all.push_back(artifact);
  return all;
}

/// Those whose cases take time; the others' ids are added to `untimed`.
std::vector<const Artifact*> timed(const FittedMachine& fitted, std::vector<std::string>& untimed) {
  std::vector<const Artifact*> timed;
  for (const Artifact* artifact : all_of(fitted)) {
    const std::vector<Case> cases =
        cases_on(*artifact, fitted.machine().name, fitted.machine().fit.program);
    if (std::any_of(cases.begin(), cases.end(), [](const Case& c) { return is_timed(c.workload); }))
      timed.push_back(artifact);
    else
      untimed.push_back(artifact->id());
  }
  return timed;
}

}  // namespace

std::optional<double> ArtifactOnMachine::longer_than(const ArtifactOnMachine& before) const {
  double sum = 0;
  int shared = 0;
  for (const auto& [name, theirs] : before.seconds) {
    const auto ours = seconds.find(name);
    if (ours == seconds.end()) continue;
    sum += 100 * (ours->second / theirs - 1);
    ++shared;
  }
  if (shared == 0) return std::nullopt;
  return sum / shared;
}

double Sensitivity::effect(const ParameterSensitivity& of) const {
  double largest = 0;
  for (const Varied* varied : {&of.less, &of.more})
    for (size_t i = 0; i < varied->artifacts.size(); ++i)
      largest =
          std::max(largest, std::abs(varied->artifacts[i].longer_than(unchanged[i]).value_or(0)));
  return largest;
}

size_t machines_of_sensitivity(const FittedMachine& fitted) {
  return 1 + 2 * fitted.machine().parameters.size();
}

Sensitivity sensitivity(const FittedMachine& fitted, int threads,
                        const std::function<void(const std::string&)>& done) {
  Sensitivity found;
  const std::vector<const Artifact*> artifacts = timed(fitted, found.untimed);
  for (const Artifact* artifact : artifacts) found.artifacts.push_back(artifact->id());
  const auto& fit = fitted.machine().fit.parameters;
  for (const Machine::Parameter& parameter : fitted.machine().parameters)
    found.parameters.push_back({parameter,
                                std::find(fit.begin(), fit.end(), parameter.key) != fit.end(),
                                varied(fitted, parameter, 1 - Sensitivity::part),
                                varied(fitted, parameter, 1 + Sensitivity::part)});
  Varied as_it_is;
  std::vector<Task> tasks{{nullptr, &as_it_is}};
  for (ParameterSensitivity& one : found.parameters)
    for (Varied* into : {&one.less, &one.more}) tasks.push_back({&one.parameter, into});
  std::mutex guard;
  side_by_side(tasks.size(), threads, [&](size_t i) {
    const auto& [parameter, into] = tasks[i];
    std::string name = "the file's values";
    if (parameter != nullptr) name = fmt::format("{} = {:.4g}", parameter->key, into->value);
    if (into->reason.empty()) {
      const Machine machine =
          parameter == nullptr ? fitted.with({}) : fitted.with({{parameter->key, into->value}});
      for (const Artifact* artifact : artifacts)
        into->artifacts.push_back(observe(*artifact, machine, fitted.machine().fit.program));
    }
    const std::scoped_lock lock(guard);
    done(name);
  });
  found.unchanged = std::move(as_it_is.artifacts);
  std::stable_sort(found.parameters.begin(), found.parameters.end(),
                   [&](const auto& a, const auto& b) { return found.effect(a) > found.effect(b); });
  return found;
}

}  // namespace frugal::harness
