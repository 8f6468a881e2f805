#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/import/imported.h"
#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// What another program's configuration became, and what it takes.
struct ImportReport {
  const Imported& imported;
  int64_t parameters = 0;  ///< of the model; 0 where it has no configuration
  int64_t capacity = 0;    ///< bytes of a rank's memory, where it was run last
  std::string command;     ///< that runs the same; empty where nothing can be run
  std::string not_run;     ///< why nothing was
  /// Records of the run.
  std::vector<Record> records;

  /// Text in a --format: "table" or "markdown".
  std::string in(const std::string& format) const;
  /// "frugal.import/1"
  nlohmann::json json() const;

 private:
  /// The model, whether it fits, how long a step takes, and the command: a line each.
  std::string answer() const;
  Table parts() const;
  /// Parts as one list behind the other, in lines of a terminal's width.
  std::string lists_of_parts() const;
};

}  // namespace frugal::harness
