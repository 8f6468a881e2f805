#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/pairing.h"
#include "harness/measure/statistics.h"

namespace frugal::harness {

/// What became of a quantity, from the base to the candidate.
enum class Change : uint8_t {
  same,       ///< equal; of a time: its whole interval is within the margin
  faster,     ///< a time's interval is below 1, and the rank test says so too
  slower,     ///< above 1
  less,       ///< a number that is no time
  more,       ///<
  different,  ///< losses, or how the case ended
  ambiguous,  ///< the runs do not tell
  too_few     ///< fewer processes than an interval needs
};
constexpr Names names_of(Change) {
  return {"same", "faster", "slower", "less", "more", "different", "ambiguous", "too few samples"};
}

/// A quantity of one case, on both sides.
struct ComparedQuantity {
  std::string case_name, which;  ///< CaseRuns::name(), CasePair::which
  std::string quantity, unit;    ///< "step_time", "s"
  std::optional<double> base, candidate;
  std::optional<Estimate> ratio = {};  ///< candidate over base
  std::optional<double> p = {};        ///< of the rank test; none where the numbers are exact
  size_t base_processes = 0, candidate_processes = 0;
  bool by_turns = false;
  Change change = Change::same;
  std::string note = {};  ///< what a reader has to know: the first loss that differs, say
};

/// How sure a verdict has to be.
struct CompareOptions {
  double margin = 0.02;  ///< a time that changed by less is the same
  double level = 0.05;   ///< false alarms that are accepted, of all quantities together
};

/// Every quantity of every pair. Times, and whatever else varies from process to process, are
/// compared by processes: ratio_of_turns() and signed_rank_test() where they ran by turns,
/// ratio_of_medians() and rank_test() where not, and the p-values adjusted for how many there are.
/// What does not vary (virtual times, bytes, FLOPs, losses) is compared exactly. Of memory and
/// FLOPs only what differs is told, but for the peak.
std::vector<ComparedQuantity> compare(const Pairing& pairing, const CompareOptions& options);

}  // namespace frugal::harness
