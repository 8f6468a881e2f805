#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/measure/runs/longest.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// A length that was run where memory is real.
struct LengthTried {
  int64_t tokens = 0;
  bool fits = false;
  std::string reason;  ///< why it does not
  int64_t peak = 0;    ///< bytes, where it fits
};

/// The longest sequence in words: what was asked, what came of it, and what took the memory.
struct LongestReport {
  StepOf step;
  std::string on, device;  ///< "cpu", and that in words
  int64_t memory = 0;      ///< bytes of each device, or rank
  LongestSequence longest;
  std::vector<LengthTried> tried;  ///< the longest and the next, where memory is real
  std::string command;

  /// Whether real memory, where there is any, did as the virtual one.
  bool confirmed() const;
  Table table() const;
  /// "frugal.longest/1"
  nlohmann::json json() const;
};

}  // namespace frugal::harness
