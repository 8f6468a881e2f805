#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/artifact.h"
#include "kernels/virtual/machine.h"

/// Artifacts on machines that differ from their files, to see what follows from a parameter.
namespace frugal::harness {

/// The cases of an artifact at full size that run on the virtual machine of this name, with the
/// kernels and messages of this program.
std::vector<Case> cases_on(const Artifact& artifact, const std::string& machine,
                           const Program& program);
/// Runs them on this machine, whatever the file of its name says. Nothing is written. Throws
/// InputError, Interrupted.
Records run_on(const Machine& machine, const Artifact& artifact, const std::vector<Case>& cases);

/// The cells of these records, all of one machine, that stand beside a number of the paper. One
/// that has no value says why.
std::vector<Cell> compared_cells(const Artifact& artifact, const Records& records);

/// Seconds of a cell whose unit is a time or one over a time, as of a throughput: up to a factor
/// that is the same for every machine. None of other units, and without a value.
std::optional<double> seconds_of(const Cell& cell);
/// Whether the unit is such a one: "ms", "s", "seqs/s".
bool is_timed(const std::string& unit);

/// The records without which any of the cells (compared_cells()) that `wanted` accepts would have
/// another value or none.
template <class Wanted>
std::vector<const Record*> records_behind(const Artifact& artifact, const Records& records,
                                          const Wanted& wanted);

/// All but those that `without` accepts.
template <class Without>
Records records_without(const Records& records, const Without& without) {
  Records rest;
  for (const Record& record : records.all())
    if (!without(record)) rest.add(record);
  return rest;
}

template <class Wanted>
std::vector<const Record*> records_behind(const Artifact& artifact, const Records& records,
                                          const Wanted& wanted) {
  const auto values = [&](const Records& some) {
    std::vector<std::optional<double>> all;
    for (const Cell& cell : compared_cells(artifact, some))
      if (wanted(cell)) all.push_back(cell.value);
    return all;
  };
  const auto whole = values(records);
  std::vector<const Record*> behind;
  for (const Record& record : records.all())
    if (values(records_without(records, [&](const Record& r) { return &r == &record; })) != whole)
      behind.push_back(&record);
  return behind;
}

/// Magnitudes of errors.
struct Errors {
  size_t cells = 0;
  double mean = 0, worst = 0;

  void add(double error);
};
/// Errors in percent of cells that are timed, and in points of those in percent; what has other
/// units, or no value, is in neither.
struct ErrorsOfCells {
  Errors percent, points;

  void add(const Cell& cell);
};

}  // namespace frugal::harness
