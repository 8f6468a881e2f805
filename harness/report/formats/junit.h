#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// A check as JUnit XML has it, which continuous integration shows.
struct JUnitCase {
  enum class Outcome : uint8_t { passed, failed, skipped };

  std::string group;  ///< "classname": what the check belongs to, such as an artifact
  std::string name;   ///< within the group
  Outcome outcome = Outcome::passed;
  std::string message = {};  ///< of one that failed or was skipped, in one line
  std::string details = {};  ///< what was seen, passed or not
  double seconds = 0;        ///< that it took; 0 where it took none of its own
};

/// One suite with these checks. Text that XML cannot hold is escaped or left out.
std::string junit_xml(const std::string& suite, const std::vector<JUnitCase>& cases);

}  // namespace frugal::harness
