#pragma once
#include <string>
#include <vector>

#include "harness/cli/flags.h"
#include "harness/measure/progress.h"
#include "harness/measure/rerun.h"
#include "harness/record/record_file.h"

namespace frugal::harness {

/// Flags of the commands that leave records: where these are, and what is run of what they have.
struct RecordFlags {
  std::string out = "out";
  bool force = false;
  Rerun rerun;

  void add_to(Flags& flags);
  /// Throws InputError where --rerun is wrong for these cases. Before anything is written.
  void check(const std::vector<std::vector<Case>>& cases) const;
  /// The records to begin with: earlier ones are set aside for --force, and what a reader has to
  /// know is said. Of several processes the first alone writes them, and the others know them.
  RecordFile open(Progress& progress) const;
};

}  // namespace frugal::harness
