#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/record/cell.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// Which records a number is taken from.
class Evidence {
 public:
  explicit Evidence(const Records& records);
  /// Their positions in Records::all(): of the number's cases in its setting, or of all cases that
  /// the artifact has there where the number names none and is no formula's.
  std::vector<size_t> of(const std::string& artifact, const Comparison& number) const;

 private:
  const Records& records_;
  std::map<std::string, std::vector<Setting>> settings_;
};

/// What a reader has to know of a record: how to make it again, on what it was made, how it ended,
/// and its metrics. Its environment is added to those that there are, and is named by its number.
nlohmann::json record_evidence(const Record& record, nlohmann::json& environments);

}  // namespace frugal::harness
