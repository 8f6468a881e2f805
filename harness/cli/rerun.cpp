#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/recorded_case.h"
#include "harness/measure/runner.h"
#include "harness/place/processes.h"
#include "harness/report/commands/rerun_report.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

struct RerunValues {
  std::string records, out, format = "table";
  UsersFiles files;
};

/// A file or folder, and the case behind its "#"; empty: all. A path may have a "#", too.
std::pair<std::string, std::string> path_and_case(const std::string& text) {
  for (size_t end = text.find('#'); end != std::string::npos; end = text.find('#', end + 1))
    if (!is_there(text) && is_there(text.substr(0, end)))
      return {text.substr(0, end), text.substr(end + 1)};
  return {text, ""};
}

/// Whether a later record is of the same case, and counts in its place.
bool has_later(const std::vector<Record>& all, size_t number) {
  return std::any_of(
      all.begin() + static_cast<std::ptrdiff_t>(number) + 1, all.end(), [&](const Record& later) {
        return later.artifact == all[number].artifact && later.case_id == all[number].case_id &&
               later.fingerprint == all[number].fingerprint;
      });
}

/// Numbers of the records to run again. Throws InputError for a case that there is not.
std::vector<size_t> selected(const std::vector<Record>& all, const std::string& name) {
  std::vector<size_t> numbers;
  std::vector<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::find(names.begin(), names.end(), all[i].case_id) == names.end())
      names.push_back(all[i].case_id);
    if ((name.empty() || name == all[i].case_id) && !has_later(all, i)) numbers.push_back(i);
  }
  if (!numbers.empty()) return numbers;
  for (size_t i = 0; i < all.size(); ++i)
    if (name == std::to_string(i)) return {i};
  if (all.empty()) throw InputError("RECORD: there are no records in it");
  const auto similar = nearest(name, names);
  throw InputError(fmt::format(
      "RECORD: there is no case \"{}\" in it; {}give one of {}, or the number of a record, from 0 "
      "to {}",
      name, similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", ")),
      fmt::join(names.begin(), names.begin() + std::min<std::ptrdiff_t>(8, std::ssize(names)),
                ", "),
      all.size() - 1));
}

/// Notes changes of the program or the machine that make another result likely.
void say_what_changed(const Record& recorded, const Record& now, Progress& progress) {
  if (recorded.program == now.program && recorded.machine == now.machine) return;
  progress.note_once(fmt::format("frugal: recorded {}", made_elsewhere(recorded, now)));
  if (recorded.source == Source::simulated && recorded.machine != now.machine)
    progress.note_once(fmt::format(
        "frugal: {} has other values in this program than when it was recorded", recorded.on));
}

RerunRecord run_again(const RerunValues& values, const Benchmarks& benchmarks, size_t number,
                      const Record& recorded, RecordFile& file, Progress& progress) {
  RerunRecord found{.number = number, .recorded = &recorded};
  try {
    if (recorded.status == Status::skipped) throw InputError("it was skipped: " + recorded.reason);
    RecordedCase it = recorded_case(recorded, benchmarks, values.files);
    Runner runner(file, progress, {.place = it.place, .timing = it.timing, .rerun = {Rerun::all}});
    Record now = runner.run(recorded.artifact, {it.again}).all().front();
    say_what_changed(recorded, now, progress);
    return beside(number, recorded, std::move(now));
  } catch (const CannotWrite&) {
    throw;
  } catch (const InputError& error) {
    found.reason = error.what();
    progress.note(fmt::format("frugal: record {}, {} {}, cannot be run again: {}", number,
                              recorded.artifact, recorded.case_id, found.reason));
    return found;
  }
}

Exit exit_of_rerun(const std::vector<RerunRecord>& records) {
  const auto any = [&](const auto& has) {
    return std::any_of(records.begin(), records.end(), has);
  };
  if (any([](const RerunRecord& r) { return r.verdict() == Again::differs; }))
    return Exit::claim_failed;
  const bool lacking =
      any([](const RerunRecord& r) { return !r.now && r.recorded->status != Status::skipped; });
  const bool none = !any([](const RerunRecord& r) { return r.now.has_value(); });
  return lacking || none ? Exit::bad_input : Exit::done;
}

Exit rerun(const RerunValues& values, const Benchmarks& benchmarks) {
  const auto [path, name] = path_and_case(values.records);
  const std::vector<Record> all = records_in(path);
  const std::vector<size_t> numbers = selected(all, name);
  if (Processes* const processes = Processes::here())
    processes->agree({{"program", program_hash()}, {"records", hash_of(to_text(all))}});
  catch_interrupts();
  Progress progress(numbers.size());
  RecordFile file;
  if (!values.out.empty() && Processes::writes()) file = RecordFile(values.out);
  std::vector<RerunRecord> records;
  for (const size_t number : numbers)
    records.push_back(run_again(values, benchmarks, number, all[number], file, progress));
  progress.finish();
  fmt::print("{}", values.format == "json" ? to_json(records).dump(2) + "\n"
                                           : rerun_table(records).in(values.format));
  return exit_of_rerun(records);
}

}  // namespace

void add_rerun(CommandLine& line) {
  const auto values = std::make_shared<RerunValues>();
  Flags flags = line.command(
      "rerun",
      "Run recorded cases again from what their records hold, in any folder, and compare the "
      "values: "
      "those of virtual devices must be the same (docs/records.md)",
      [values, &line] { return rerun(*values, line.benchmarks()); },
      CommandLine::Ranks::threads_or_processes);
  flags.positional("RECORD", values->records,
                   "A file of records or its folder, and behind # a case of it, or the number of a "
                   "record from 0; all cases otherwise, of each the last record");
  flags.text("--text", values->files.text, "FILE",
             "The text of a training on one: a record has its hash");
  flags.text("--load-weights", values->files.weights, "FILE|FOLDER",
             "The weights that a training began with: a record has their hash");
  flags.text("--out", values->out, "DIR",
             "Also add the new records to records.jsonl in this folder");
  flags.format(values->format, "How to print the comparison on stdout");
}

}  // namespace frugal::harness
