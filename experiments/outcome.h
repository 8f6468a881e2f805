#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "experiments/paper.h"
#include "harness/record/record.h"

namespace frugal::experiments {

/// An estimate, or how the case that it lacks ended.
struct Outcome {
  std::optional<Estimate> estimate;
  Status status = Status::ok;
  std::string reason = {};
  std::vector<std::string> cases = {};  ///< ids of those that it was taken from
};

/// A case's record if it is ok; otherwise null, and how it ended.
struct Found {
  const Record* record;
  Status status;
  std::string reason;
};
Found find_case(const Records& records, const std::string& artifact, const std::string& case_id,
                const Setting& setting);

/// Writes an outcome, and where it is from, into a cell or claim.
void set(Comparison& number, const Setting& setting, const Outcome& outcome);

/// Whether the virtual machine of this setting was fitted to this number of a paper, as its file
/// says (Fit::to). `artifact` is "korthikanti2022/table4"; without row and column any of its
/// numbers.
bool fitted_to(const Setting& setting, std::string_view artifact, std::string_view row = {},
               std::string_view column = {});

/// A cell of the paper's artifact of that name, with the paper's number where there is one.
Cell make_cell(const Paper& paper, const std::string& artifact, std::string_view row,
               std::string_view column, std::string_view unit, const Setting& setting,
               const Outcome& outcome);

/// A cell that needs no record.
Cell formula_cell(const Paper& paper, const std::string& artifact, std::string_view row,
                  std::string_view column, std::string_view unit, double value);

/// Of seconds of another machine and bytes of another size: nothing of the paper's is the same
/// quantity.
void beside_nothing(Cell& cell);

inline constexpr double gib = 1024.0 * 1024 * 1024;

/// How many processors the machine of a record had; none where it does not say.
std::optional<int> usable_processors_of(const Record& record);

/// "parameter 14.96, optimizer 29.92, … GiB at the peak", of the stage that has most.
std::string breakdown(const Memory& memory);

}  // namespace frugal::experiments
