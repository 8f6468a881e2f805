#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/program/find_program.h"
#include "harness/measure/artifact.h"

/// Which behaviours of a paper's program make its numbers differ from frugal's.
namespace frugal::harness {

/// What one behaviour does to a cell: as it joins those before it, alone, and as it leaves all
/// others. None where one of the runs gave no number.
struct Term {
  KnownBehaviour behaviour;
  std::optional<double> added, alone, without;

  /// Whether it does anything in any of the three ways.
  bool counts() const;
};

/// A difference from the paper as a sum: frugal's own value, what each behaviour adds in their
/// order, and what is left that none explains.
struct Attribution {
  std::string artifact, row, column, unit;
  double paper = 0;
  std::optional<double> frugal, program;  ///< values without behaviours, and with all
  std::vector<Term> terms;

  std::optional<double> unexplained() const {
    return program ? std::optional(paper - *program) : std::nullopt;
  }
};

/// What is run to attribute an artifact's differences.
class AttributionRuns {
 public:
  /// Of all behaviours of this program, or of the artifact's own (Artifact::program()). Throws
  /// InputError where there is neither, where the artifact has no virtual cases, and for what
  /// find_program() refuses.
  AttributionRuns(const Artifact& artifact, const std::string& program);

  using Values = std::map<std::pair<std::string, std::string>, Cell>;  ///< by row and column

  std::string id() const { return artifact_.id(); }
  /// Runs all cases without behaviours: frugal's cells that have a number of the paper's.
  Values own() const { return values_of({}); }
  /// How many times run() runs all cases.
  size_t count() const { return runs_.size(); }
  /// Attributes these cells, which are all or some of own(). `done` is told what was run.
  std::vector<Attribution> run(const Values& own,
                               const std::function<void(const std::string&)>& done) const;

 private:
  Values values_of(const Program& program) const;

  const Artifact& artifact_;
  std::vector<KnownBehaviour> behaviours_;
  /// Run with the first behaviour, the first two, …; each alone; all but each.
  struct Run {
    Program program;
    std::string what;
  };
  std::vector<Run> runs_;
};

}  // namespace frugal::harness
