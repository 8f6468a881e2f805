#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// What a quantity should be, and who says so: a data sheet, the record of a machine, an earlier
/// validation, a virtual machine's prediction, or this machine itself.
struct Expectation {
  double value = 0;
  std::string source;
};

/// One thing that was looked at, and what came of it.
struct Finding {
  enum class Outcome : uint8_t { passed, failed, skipped };
  /// Where a check compares a number. `seen`, `expected` and `limit` are in `unit`.
  struct Number {
    std::string unit;
    Estimate seen;
    Expectation expected;
    double limit = 0;  ///< beyond it the check fails
  };

  std::string group;  ///< CheckGroup::name
  std::string name;   ///< within the group: "memory_bandwidth"
  Outcome outcome = Outcome::passed;
  std::string expected = {};  ///< in words, with its source
  std::string seen = {};      ///< in words; empty where nothing was looked at
  std::string band = {};      ///< how far off it may be, and why so far
  std::string reason = {};    ///< of one that failed or was skipped
  std::string advice = {};    ///< what to do next, where it did not pass
  std::optional<Number> number = {};
  bool computes_wrongly = false;  ///< failed, and results are what is wrong
  double seconds = 0;             ///< that it took by itself; 0: it looks at what others timed
};

constexpr Names names_of(Finding::Outcome) { return {"passed", "failed", "skipped"}; }

/// A check that was not made, with the reason.
Finding skipped_finding(std::string group, std::string name, std::string reason,
                        std::string advice = {});

nlohmann::json to_json(const Finding& check);

}  // namespace frugal::harness
