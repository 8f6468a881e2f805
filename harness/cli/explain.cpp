#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/progress.h"
#include "harness/report/attribution_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct ExplainValues {
  std::vector<std::string> names;
  std::string program, row, column, format = "table";
};

bool is_asked(const ExplainValues& values, const Attribution& one) {
  return (values.row.empty() || values.row == one.row) &&
         (values.column.empty() || values.column == one.column);
}

/// What the cells have that were not found, for a message.
[[noreturn]] void refuse(const ExplainValues& values, const std::vector<Attribution>& all) {
  std::string names;
  for (const Attribution& one : all)
    names += fmt::format("{}\"{}\", \"{}\"", names.empty() ? "" : "; ", one.row, one.column);
  throw InputError(
      fmt::format("--row is \"{}\" and --column is \"{}\"; cells with a number of the "
                  "paper's are {}",
                  values.row, values.column, names));
}

Exit explain(const ExplainValues& values, const Artifacts& all) {
  const Artifacts artifacts = select_artifacts(all, values.names);
  std::vector<AttributionRuns> runs;
  size_t total = 0;
  for (const Artifact* artifact : artifacts)
    total += runs.emplace_back(*artifact, values.program).count();
  catch_interrupts();
  Progress progress(total);
  std::vector<Attribution> found, asked;
  for (const AttributionRuns& one : runs)
    for (Attribution& attribution :
         one.run([&](const std::string& program) { progress.finished(program, "done"); }))
      found.push_back(std::move(attribution));
  progress.finish();
  std::copy_if(found.begin(), found.end(), std::back_inserter(asked),
               [&](const Attribution& one) { return is_asked(values, one); });
  if (asked.empty()) refuse(values, found);
  const std::string command =
      fmt::format("frugal explain {}{}", fmt::join(values.names, " "),
                  values.program.empty() ? "" : " --program " + file_name(values.program));
  fmt::print("{}",
             values.format == "json" ? to_json(asked, command).dump(2) + "\n" : to_text(asked));
  return Exit::done;
}

}  // namespace

void add_explain(CommandLine& line) {
  const auto values = std::make_shared<ExplainValues>();
  Flags flags = line.command("explain",
                             "A difference from the paper as a sum of what its program did besides",
                             [values, &line] { return explain(*values, line.artifacts()); });
  flags.positional("ARTIFACT", values->names, "Ids, globs, or a paper's id for all of it", true);
  flags.text("--program", values->program, "NAME|FILE|BEHAVIOUR[+...]",
             "The program; that of the artifact's paper otherwise");
  flags.text("--row", values->row, "ROW", "Of this row only");
  flags.text("--column", values->column, "COLUMN", "Of this column only");
  flags.choice("--format", values->format, {"table", "json"}, "How to print it on stdout");
}

}  // namespace frugal::harness
