#pragma once
#include <fmt/format.h>

#include "harness/measure/progress.h"
#include "harness/place/processes.h"
#include "harness/record/record_file.h"

namespace frugal::harness {

/// What a command says of the records that it begins with: --force sets earlier ones aside, and a
/// line that was cut off is no record.
inline void begin_with(RecordFile& file, bool force, Progress& progress) {
  if (force)
    if (const std::string kept = file.set_aside(); !kept.empty())
      progress.note(fmt::format("frugal: earlier records are kept in {}", kept));
  if (file.truncated())
    progress.note("frugal: the last line of the records was cut off; its case is run again");
}

/// The records of a folder, to begin with; of several processes the first alone writes them, and the
/// others know them.
inline RecordFile open_records(const std::string& out, bool force, Progress& progress) {
  RecordFile file;
  if (Processes::writes()) file = RecordFile(out);
  begin_with(file, force, progress);
  if (Processes* const processes = Processes::here())
    file.known(records_from_text(processes->of_first(to_text(file.records()))));
  return file;
}

}  // namespace frugal::harness
