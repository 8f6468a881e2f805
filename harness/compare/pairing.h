#pragma once
#include <string>
#include <vector>

#include "harness/compare/conditions.h"

namespace frugal::harness {

/// What a case gave under the same conditions, by the same program: a record of each process that
/// ran it, the first of them first.
struct CaseRuns {
  std::string artifact, case_id;
  Conditions conditions;
  std::vector<const Record*> runs = {};

  /// "measure 22B".
  std::string name() const { return artifact + " " + case_id; }
};

/// A case of the base and the same of the candidate.
struct CasePair {
  CaseRuns base, candidate;
  /// What distinguishes it from other pairs of the same case: "recompute full". Empty where there
  /// are none.
  std::string which = {};
  /// Whether the processes ran by turns: one of each side after the other. Then run i of both is of
  /// the same turn.
  bool by_turns = false;
};

struct Pairing {
  std::vector<CasePair> pairs;
  std::vector<std::string> only_base, only_candidate;  ///< names of cases
  std::vector<std::string> left_out;  ///< records that do not count, and why: in words
};

/// Pairs cases of the same name and conditions, but for those that the comparison is across.
/// Records of runs that were interrupted or skipped do not count, nor what an earlier program left,
/// nor, beside enough turns for an interval, a run that is of none. Throws InputError where a case
/// is on both sides under conditions that do not go together, and says which; where several cases
/// of the candidate would do; and where nothing can be compared. The records have to outlive the
/// pairs.
Pairing pair_up(const std::vector<Record>& base, const std::vector<Record>& candidate,
                const Across& across);

}  // namespace frugal::harness
