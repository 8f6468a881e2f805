#pragma once
#include <string>
#include <vector>

#include "harness/measure/case.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// Which recorded cases are run again (--rerun). Their earlier records stay where they are.
struct Rerun {
  static constexpr const char* failed = "failed";
  static constexpr const char* all = "all";

  std::string which = {};  ///< `failed`, `all` or a case's name; empty: none

  /// Whether a case that has this record is run again. One that was skipped has not failed.
  bool asks_for(const Case& c, const Record& record) const;
  /// Throws InputError, with the names there are, for one that no case has, nor a smaller one that
  /// may be run in its place.
  void check(const std::vector<std::vector<Case>>& cases) const;
};

}  // namespace frugal::harness
