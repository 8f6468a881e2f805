#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/cli/flags.h"
#include "harness/measure/artifact.h"
#include "harness/measure/benchmark.h"
#include "harness/record/exit.h"
#include "harness/report/inventory.h"

namespace frugal::harness {

using Artifacts = std::vector<const Artifact*>;

/// The command line: a tree of commands with their flags, from which the parser, the help, the
/// shell completions and docs/cli.md all come.
class CommandLine {
 public:
  explicit CommandLine(Artifacts artifacts, Benchmarks benchmarks = {}, Papers papers = {});
  ~CommandLine();

  /// Whether a command can be one of several processes (harness/place/processes.h).
  enum class Ranks : uint8_t { threads, threads_or_processes };
  /// Adds a command; `run` is called after its flags were parsed.
  Flags command(const std::string& name, const std::string& help, std::function<Exit()> run,
                Ranks ranks = Ranks::threads);

  const CLI::App& app() const { return *app_; }
  const Artifacts& artifacts() const { return artifacts_; }
  const Benchmarks& benchmarks() const { return benchmarks_; }
  const Papers& papers() const { return papers_; }

  /// Parses, runs, and reports every error in one line on stderr. Returns the exit status. With the
  /// other processes, where a launcher has started several.
  int main(int argc, const char* const* argv);

 private:
  Exit run_alone(int argc, const char* const* argv);
  Exit run_guarded(int argc, const char* const* argv);
  Exit parse_and_run(int argc, const char* const* argv);

  Artifacts artifacts_;
  Benchmarks benchmarks_;
  Papers papers_;
  std::unique_ptr<CLI::App> app_;
  std::function<Exit()> chosen_;
  Ranks ranks_ = Ranks::threads;  ///< of the chosen one
};

// One file each; they keep their flags' values alive in the function they add.
void add_list(CommandLine& line);
void add_reproduce(CommandLine& line);
void add_explain(CommandLine& line);
void add_predict(CommandLine& line);
void add_measure(CommandLine& line);
void add_import(CommandLine& line);
void add_export(CommandLine& line);
void add_plan(CommandLine& line);
void add_longest(CommandLine& line);
void add_recompute(CommandLine& line);
void add_calibrate(CommandLine& line);
void add_trace(CommandLine& line);
void add_operations(CommandLine& line);
void add_flops(CommandLine& line);
void add_peak(CommandLine& line);
void add_bench(CommandLine& line);
void add_schedule(CommandLine& line);
void add_compare(CommandLine& line);
void add_rerun(CommandLine& line);
void add_report(CommandLine& line);
void add_completion(CommandLine& line);
void add_validate(CommandLine& line);
void add_docs(CommandLine& line);

/// What docs/cli.md says.
std::string cli_markdown(const CLI::App& app);
/// Shell is bash, zsh or fish; artifacts complete by name.
std::string completion_script(const CLI::App& app, const Artifacts& artifacts,
                              const std::string& shell);

/// The artifacts that ids, globs ("*/table?") or papers' ids name, in the order of the list. Throws
/// InputError for a name that matches none, with the nearest there are.
Artifacts select_artifacts(const Artifacts& all, const std::vector<std::string>& names);

}  // namespace frugal::harness
