#pragma once
#include <map>
#include <string>

#include "harness/report/reproduction.h"

namespace frugal::harness {

/// How many of each verdict.
struct Tally {
  std::map<Verdict, size_t> of;
  size_t without = 0;  ///< cells that have something of the paper's, and no verdict

  /// "20 reproduced, 15 not reproduced, 2 calibrated"
  std::string text() const;
};

/// What the paper measured is its program: where that is executed, too, its verdict counts, and not
/// frugal's own.
Tally judged_claims(const Reproduction& reproduction);
Tally judged_cells(const Reproduction& reproduction);
/// Claims that are not reproduced and were not expected to be.
size_t failed_claims(const Reproduction& reproduction);
/// Claims that a run would pass in which what they are about has no effect.
size_t claims_without_effect(const Reproduction& reproduction);

/// Whether no verdict would be another, had what it follows from been timed in more rounds
/// (Comparison::is_decided_early).
bool is_decided_early(const Reproduction& reproduction);

/// What `--check` says, and whether all is as it should be: no claim failed that nothing explains,
/// none would pass without effect, and no cell is without a verdict.
struct Check {
  std::string text;
  bool passed = true;
};
Check check(const Reproduction& reproduction);

/// A line for the claims and the cells of each source and device, and of each paper's program.
Table verdict_table(const Reproduction& reproduction);

}  // namespace frugal::harness
