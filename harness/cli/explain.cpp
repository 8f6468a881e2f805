#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/cli/command_line.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/progress.h"
#include "harness/report/commands/attribution_report.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct ExplainValues {
  std::vector<std::string> names;
  std::string program, row, column, format = "table";
};

/// What of an artifact is asked for.
struct AskedCells {
  AttributionRuns runs;
  AttributionRuns::Values cells;
};

/// Of some artifacts those that can be explained. Throws InputError where none can, or one that is
/// named by its id.
std::vector<AttributionRuns> explicable(const ExplainValues& values, const Artifacts& artifacts) {
  std::vector<AttributionRuns> all;
  std::vector<std::string> left_out;
  for (const Artifact* artifact : artifacts) {
    try {
      all.emplace_back(*artifact, values.program);
    } catch (const InputError& why) {
      if (std::find(values.names.begin(), values.names.end(), artifact->id()) != values.names.end())
        throw;
      left_out.emplace_back(why.what());
    }
  }
  if (all.empty()) throw InputError(left_out.front());
  for (const std::string& why : left_out) fmt::print(stderr, "left out: {}\n", why);
  return all;
}

/// Throws InputError, with the cells that there are, where none is asked for.
std::vector<AskedCells> find_asked_cells(const ExplainValues& values, const Artifacts& artifacts) {
  std::vector<AttributionRuns> all = explicable(values, artifacts);
  Progress progress(all.size());
  std::vector<AskedCells> asked;
  std::set<std::string> names;
  for (AttributionRuns& runs : all) {
    AttributionRuns::Values cells = runs.own();
    progress.finished(runs.id() + " frugal", "done");
    for (const auto& [name, cell] : cells)
      names.insert(fmt::format("\"{}\", \"{}\"", name.first, name.second));
    std::erase_if(cells, [&](const auto& cell) {
      const auto& [row, column] = cell.first;
      return (!values.row.empty() && values.row != row) ||
             (!values.column.empty() && values.column != column);
    });
    if (!cells.empty()) asked.push_back({std::move(runs), std::move(cells)});
  }
  progress.finish();
  if (asked.empty())
    throw InputError(
        fmt::format("--row is \"{}\" and --column is \"{}\"; cells with a number of the "
                    "paper's are {}",
                    values.row, values.column, fmt::join(names, "; ")));
  return asked;
}

Exit explain(const ExplainValues& values, const Artifacts& all) {
  catch_interrupts();
  const std::vector<AskedCells> asked =
      find_asked_cells(values, select_artifacts(all, values.names));
  size_t total = 0;
  for (const AskedCells& one : asked) total += one.runs.count();
  Progress progress(total);
  std::vector<Attribution> found;
  for (const AskedCells& one : asked)
    for (Attribution& attribution : one.runs.run(
             one.cells, [&](const std::string& program) { progress.finished(program, "done"); }))
      found.push_back(std::move(attribution));
  progress.finish();
  const std::string command =
      fmt::format("frugal explain {}{}", fmt::join(values.names, " "),
                  values.program.empty() ? "" : " --program " + file_name(values.program));
  fmt::print("{}",
             values.format == "json" ? to_json(found, command).dump(2) + "\n" : to_text(found));
  return Exit::done;
}

}  // namespace

void add_explain(CommandLine& line) {
  const auto values = std::make_shared<ExplainValues>();
  Flags flags = line.command("explain",
                             "A difference from the paper as a sum of what its program did besides",
                             [values, &line] { return explain(*values, line.artifacts()); });
  flags.positional(
      "ARTIFACT", values->names,
      "Ids, globs, or a paper's id for all of it; of the last two, what no program is known of "
      "is left out",
      true);
  flags.text("--program", values->program, "NAME|FILE|BEHAVIOUR[+...]",
             "The program; that of the artifact's paper otherwise");
  flags.text("--row", values->row, "ROW", "Of this row only");
  flags.text("--column", values->column, "COLUMN", "Of this column only");
  flags.choice("--format", values->format, {"table", "json"}, "How to print it on stdout");
}

}  // namespace frugal::harness
