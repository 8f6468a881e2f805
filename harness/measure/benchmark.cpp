#include "harness/measure/benchmark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Where a case runs, of which the user asked for `on`.
std::string place_of(const Benchmark& benchmark, const BenchmarkCase& c, const std::string& on) {
  if (!c.on.empty()) {
    if (on.empty()) return c.on;
    throw InputError(fmt::format(
        "--on {}: each case of {} has a place of its own, as --list shows; leave --on out", on,
        benchmark.name));
  }
  return on.empty() ? "cpu" : on;
}

void check_place(const Benchmark& benchmark, const std::string& on) {
  const DeviceKind kind = device_kind(on);
  if (std::find(benchmark.places.begin(), benchmark.places.end(), kind) != benchmark.places.end())
    return;
  std::vector<std::string> allowed;
  for (const DeviceKind place : benchmark.places)
    allowed.emplace_back(place == DeviceKind::cpu    ? "cpu"
                         : place == DeviceKind::cuda ? "cuda"
                                                     : "virtual:MACHINE");
  throw InputError(fmt::format("--on {}: the benchmark {} runs on {}; choose one of these", on,
                               benchmark.name, fmt::join(allowed, ", ")));
}

bool runs_on(const BenchmarkCase& c, const std::string& on) {
  const DeviceKind kind = device_kind(on.empty() ? "cpu" : on);
  return c.only_on.empty() ||
         std::find(c.only_on.begin(), c.only_on.end(), kind) != c.only_on.end();
}

Case case_at(const Benchmark& benchmark, const Point& point, BenchmarkCase at,
             const std::string& asked) {
  const std::string on = place_of(benchmark, at, asked);
  if (at.on.empty()) check_place(benchmark, on);
  const Point apart = point.without(benchmark.by_turns);
  const bool by_turns = !benchmark.by_turns.empty();
  return {
      .id = point.id(),
      .config = std::move(at.config),
      .workload = workload::Benchmark{.axes = {point.values().begin(), point.values().end()},
                                      .rounds = by_turns ? benchmark.name + "/" + apart.id() : "",
                                      .make = std::move(at.make)},
      .on = on};
}

/// Those that the glob matches, and those of their rounds.
std::vector<Case> matching(const std::vector<Case>& all, const std::string& glob) {
  std::set<std::string> rounds, ids;
  for (const Case& c : all) {
    if (fnmatch(glob.c_str(), c.id.c_str(), 0) != 0) continue;
    ids.insert(c.id);
    rounds.insert(std::get<workload::Benchmark>(c.workload).rounds);
  }
  rounds.erase("");
  std::vector<Case> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const Case& c) {
    return ids.count(c.id) > 0 ||
           rounds.count(std::get<workload::Benchmark>(c.workload).rounds) > 0;
  });
  return some;
}

}  // namespace

const std::string& Point::at(std::string_view axis) const {
  for (const auto& [name, value] : values_)
    if (name == axis) return value;
  throw std::out_of_range("no axis is called " + std::string(axis));
}

std::string Point::id() const {
  std::vector<std::string> values;
  for (const auto& [name, value] : values_) values.push_back(value);
  return fmt::format("{}", fmt::join(values, "/"));
}

Point Point::without(const std::vector<std::string>& axes) const {
  Point rest;
  for (const auto& value : values_)
    if (!contains(axes, value.first)) rest.values_.push_back(value);
  return rest;
}

std::vector<Point> points_of(const std::vector<BenchmarkAxis>& axes) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all = {{}};
  for (const BenchmarkAxis& axis : axes) {
    decltype(all) longer;
    for (const auto& values : all)
      for (const std::string& value : axis.values) {
        longer.push_back(values);
        longer.back().emplace_back(axis.name, value);
      }
    all = std::move(longer);
  }
  return std::vector<Point>(all.begin(), all.end());
}

std::vector<Case> cases_of(const Benchmark& benchmark, const std::string& on,
                           const std::string& glob) {
  const CaseAt at = benchmark.at_of_a_run ? benchmark.at_of_a_run() : benchmark.at;
  std::vector<Case> all;
  for (const Point& point : points_of(benchmark.axes))
    if (std::optional<BenchmarkCase> found = at(point); found && runs_on(*found, on))
      all.push_back(case_at(benchmark, point, std::move(*found), on));
  if (glob.empty()) return all;
  std::vector<Case> some = matching(all, glob);
  if (some.empty())
    throw InputError(
        fmt::format("--case {}: no case of {} matches; its first is {}, and `frugal "
                    "bench {} --list` shows all",
                    glob, benchmark.name, all.front().id, benchmark.name));
  return some;
}

}  // namespace frugal::harness
