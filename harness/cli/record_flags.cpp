#include "harness/cli/record_flags.h"

#include <fmt/format.h>

#include "harness/place/processes.h"
#include "kernels/support/error.h"

namespace frugal::harness {

void RecordFlags::add_to(Flags& flags) {
  flags.text("--out", out, "DIR", "Folder for records.jsonl; runs resume from it");
  flags.text("--rerun", rerun.which, "failed|all|CASE",
             "Run recorded cases again: those that did not end well, all, or the one of this name, "
             "each with what is timed by turns with it. The last record of a case counts");
  flags.toggle("--force", force, "Run all cases again, into a new file; the old one is kept aside");
}

void RecordFlags::check(const std::vector<std::vector<Case>>& cases) const {
  rerun.check(cases);
  if (force && !rerun.which.empty())
    throw InputError(
        fmt::format("--rerun {} and --force: the latter begins a new file, in which nothing is "
                    "recorded; leave one of them out",
                    rerun.which));
}

RecordFile RecordFlags::open(Progress& progress) const {
  RecordFile file;
  if (Processes::writes()) file = RecordFile(out);
  if (force)
    if (const std::string kept = file.set_aside(); !kept.empty())
      progress.note(fmt::format("frugal: earlier records are kept in {}", kept));
  if (file.truncated())
    progress.note("frugal: the last line of the records was cut off; its case is run again");
  if (Processes* const processes = Processes::here())
    file.known(records_from_text(processes->of_first(to_text(file.records()))));
  return file;
}

}  // namespace frugal::harness
