#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/compare/turns.h"
#include "harness/measure/interrupt.h"
#include "harness/record/record_file.h"
#include "harness/report/commands/comparison_report.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct CompareValues {
  std::string base, candidate, base_program, candidate_program, format = "table", junit;
  std::vector<std::string> across, fail_on;
  CompareOptions options;
  std::optional<int> repeat;
  int seed = 1;
  bool force = false;
};

/// A change as --fail-on has it: in one word.
std::string word_of(Change change) {
  std::string word(name_of(change));
  std::replace(word.begin(), word.end(), ' ', '-');
  return word;
}

/// What --fail-on may name.
std::vector<Change> changes() {
  return {Change::slower,    Change::faster,    Change::more,   Change::less,
          Change::different, Change::ambiguous, Change::too_few};
}

std::vector<Change> changes_of(const std::vector<std::string>& words) {
  std::vector<Change> found;
  for (const Change change : changes())
    if (std::find(words.begin(), words.end(), word_of(change)) != words.end())
      found.push_back(change);
  return found;
}

/// The program that runs a side again: the one that was named, or this one, if it made the records.
std::string program_of_side(const std::string& flag, const std::string& named,
                            const std::string& folder, const Record& last) {
  if (!named.empty()) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(named, none))
      throw InputError(fmt::format("{}: {} is no file; name a frugal", flag, named));
    return std::filesystem::absolute(named).string();
  }
  if (last.program != program_hash())
    throw InputError(
        fmt::format("--repeat: the records of {} were made by another build (commit {}); name it "
                    "with {} FILE",
                    folder, build_of(last), flag));
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

void check_folder(const std::string& folder) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none))
    throw InputError(fmt::format(
        "--repeat: it adds records to folders, and {} is a file; copy it to a folder's {}", folder,
        RecordFile::name));
}

RunAgain side_of(const std::string& flag, const std::string& named, const std::string& folder,
                 const Pairing& pairing, CaseRuns CasePair::*side) {
  check_folder(folder);
  const Record& last = *(pairing.pairs.front().*side).runs.back();
  return {folder, program_of_side(flag, named, folder, last), commands_of(pairing.pairs, side)};
}

/// Runs both sides again, so many processes each.
void repeat(const CompareValues& values) {
  const std::vector<Record> base = records_in(values.base),
                            candidate = records_in(values.candidate);
  const Pairing pairing = pair_up(base, candidate, Across(values.across, base, candidate));
  const std::vector<RunAgain> sides = {
      side_of("--base-program", values.base_program, values.base, pairing, &CasePair::base),
      side_of("--candidate-program", values.candidate_program, values.candidate, pairing,
              &CasePair::candidate)};
  catch_interrupts();
  Progress progress(0);
  run_by_turns(sides, *values.repeat, static_cast<uint64_t>(values.seed), progress);
  progress.finish();
}

/// Of all pairs, each once.
std::vector<Difference> differences_of(const Pairing& pairing) {
  std::vector<Difference> found;
  for (const CasePair& pair : pairing.pairs) {
    std::vector<Difference> of_pair =
        differences(program_of(*pair.base.runs.back()), program_of(*pair.candidate.runs.back()));
    for (Difference& d : differences(pair.base.conditions, pair.candidate.conditions))
      of_pair.push_back(std::move(d));
    for (Difference& d : of_pair)
      if (std::find(found.begin(), found.end(), d) == found.end()) found.push_back(std::move(d));
  }
  return found;
}

ComparisonReport compared(const CompareValues& values) {
  const std::vector<Record> base = records_in(values.base),
                            candidate = records_in(values.candidate);
  const Pairing pairing = pair_up(base, candidate, Across(values.across, base, candidate));
  return {.base = values.base,
          .candidate = values.candidate,
          .options = values.options,
          .across = values.across,
          .differences = differences_of(pairing),
          .quantities = compare(pairing, values.options),
          .only_base = pairing.only_base,
          .only_candidate = pairing.only_candidate,
          .left_out = pairing.left_out,
          .fail_on = changes_of(values.fail_on)};
}

void print(const ComparisonReport& report, const std::string& format) {
  if (format == "json") {
    fmt::print("{}\n", to_json(report).dump(2));
    return;
  }
  fmt::print("{}", change_table(report).in(format));
  if (format == "csv") return;
  for (const std::string& remark : change_remarks(report))
    fmt::print("{}{}\n", format == "markdown" ? "\n" : "", remark);
}

void check(const CompareValues& values) {
  std::error_code none;
  if (std::filesystem::equivalent(values.base, values.candidate, none))
    throw InputError(
        fmt::format("{} and {} are the same records; name two", values.base, values.candidate));
  if (!values.junit.empty()) {
    check_distinct({{"--junit", values.junit}}, {{"BASE", records_file(values.base)},
                                                 {"CANDIDATE", records_file(values.candidate)}});
    check_output_file("--junit", values.junit, values.force);
  }
  for (const auto& [flag, given] :
       {std::pair("--base-program", !values.base_program.empty()),
        std::pair("--candidate-program", !values.candidate_program.empty())})
    if (given && !values.repeat)
      throw InputError(
          fmt::format("{}: it is what --repeat runs; give that, or leave it out", flag));
}

Exit compare_command(const CompareValues& values) {
  check(values);
  if (values.repeat) repeat(values);
  const ComparisonReport report = compared(values);
  print(report, values.format);
  if (!values.junit.empty())
    write_file(values.junit, junit_xml("frugal compare", junit_cases(report)));
  const bool failed =
      std::any_of(report.quantities.begin(), report.quantities.end(),
                  [&](const ComparedQuantity& quantity) { return report.fails(quantity); });
  return failed ? Exit::claim_failed : Exit::done;
}

}  // namespace

void add_compare(CommandLine& line) {
  const auto values = std::make_shared<CompareValues>();
  Flags flags = line.command(
      "compare",
      "Compare the records of two folders, case by case: what became faster, slower or the same, "
      "with intervals over processes; memory and losses exactly",
      [values] { return compare_command(*values); });
  flags.positional("BASE", values->base,
                   "Records that are held against: a folder, or a file of them");
  flags.positional("CANDIDATE", values->candidate, "Records that are judged");
  flags.list("--across", any_text("NAME"), values->across,
             "Conditions that may differ because the comparison is about them, such as recompute, "
             "device or model; what else differs is refused, but for the program");
  flags.integer("--repeat", values->repeat, 1,
                "First run the commands of both again, as so many processes of each, by turns in "
                "random order, and add their records to the folders",
                10000);
  flags.text("--base-program", values->base_program, "FILE",
             "The frugal that --repeat runs for the base; this one otherwise");
  flags.text("--candidate-program", values->candidate_program, "FILE",
             "The frugal that --repeat runs for the candidate; this one otherwise");
  flags.integer("--seed", values->seed, 1, "Of the order in which --repeat runs");
  flags.number("--margin", values->options.margin, 0, 1,
               "A time whose interval lies within this fraction of the base's is the same");
  flags.number("--level", values->options.level, 0, 1,
               "Probability of a false alarm that is accepted, of all quantities together");
  std::vector<std::string> words;
  for (const Change change : changes()) words.push_back(word_of(change));
  flags.list("--fail-on", one_of(words), values->fail_on,
             "End with status 1 where a quantity became so");
  flags.format(values->format, "How to print the comparison on stdout");
  flags.text("--junit", values->junit, "FILE", "Also write it as JUnit XML, for CI");
  flags.toggle("--force", values->force, "Replace the file of --junit");
}

}  // namespace frugal::harness
