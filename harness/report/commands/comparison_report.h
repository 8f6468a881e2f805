#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/compare/change.h"
#include "harness/report/formats/junit.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// What `frugal compare` came to.
struct ComparisonReport {
  /// docs/compare.md describes it.
  static constexpr const char* schema = "frugal.comparison/1";

  std::string base, candidate;  ///< what the user called them
  CompareOptions options;
  std::vector<std::string> across;      ///< conditions that were allowed to differ
  std::vector<Difference> differences;  ///< of the programs, and of those conditions
  std::vector<ComparedQuantity> quantities;
  std::vector<std::string> only_base, only_candidate;  ///< cases that have no partner
  std::vector<std::string> left_out;                   ///< records that do not count, and why
  std::vector<Change> fail_on;

  bool fails(const ComparedQuantity& quantity) const;
};

Table change_table(const ComparisonReport& report);
/// What a reader has to know beside the table: the differences, what was left out, and how many
/// changes of each kind there are.
std::vector<std::string> change_remarks(const ComparisonReport& report);
nlohmann::json to_json(const ComparisonReport& report);
/// A check of each quantity, which fails where `fail_on` has its change.
std::vector<JUnitCase> junit_cases(const ComparisonReport& report);

}  // namespace frugal::harness
