#include "harness/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "engine/cluster/cluster.h"
#include "harness/measure/runner.h"
#include "harness/place/processes.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

constexpr const char* footer =
    "Exit status: 0 done, 1 a claim, comparison or validation failed, 2 bad input, 3 out of "
    "memory, 4 deadline "
    "passed, 5 a peer was lost, 6 wrong numbers, 7 a GPU was lost, 130 interrupted.";

/// Names that other programs and papers give a flag, mostly short, each with spaces around it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> other_names = {
    {{"--tensor-parallel", " tp tp-size "},
     {"--pipeline-parallel", " pp pp-size "},
     {"--data-parallel", " dp dp-size "},
     {"--context-parallel", " cp cp-size "},
     {"--sequence-parallel", " sp "},
     {"--chunks", " vp vpp "},
     {"--micro-batch", " mbs bs batch-size "},
     {"--batch", " gbs "},
     {"--microbatches", " gbs gas "},
     {"--sequence", " seq-len seqlen seq-length max-seq-len "},
     {"--key-value-heads", " kv-heads num-kv-heads gqa "},
     {"--type", " dtype "},
     {"--shard", " zero zero-stage fsdp "},
     {"--devices", " gpus world-size "}}};

/// Flags among `flags` that another program's or a paper's name stands for.
std::vector<std::string> written_out(std::string_view name, const std::vector<std::string>& flags) {
  std::string word(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::replace(word.begin(), word.end(), '_', '-');
  std::vector<std::string> found;
  for (const auto& [flag, names] : other_names)
    if (names.find(" " + word + " ") != std::string_view::npos &&
        std::find(flags.begin(), flags.end(), flag) != flags.end())
      found.emplace_back(flag);
  return found;
}

/// CLI11's message in one line, with the nearest flag or command for one that is not known.
std::string describe(const CLI::ParseError& error, const CLI::App& app) {
  std::string message = error.what();
  message = message.substr(0, message.find('\n'));
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string help = fmt::format("`{} --help` lists what there is",
                                       chosen.empty() ? "frugal" : "frugal " + command.get_name());
  // An unknown command is reported as a missing one, with the unknown word left over.
  const bool no_command = chosen.empty() && !app.remaining().empty();
  if (!no_command && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
    return fmt::format("{}; {}", message, help);
  std::string unknown =
      no_command ? app.remaining().front() : message.substr(message.rfind(' ') + 1);
  if (unknown.starts_with('-')) unknown.resize(std::min(unknown.find('='), unknown.size()));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  if (chosen.empty())
    for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  std::vector<std::string> similar = written_out(unknown, names);
  if (similar.empty()) similar = nearest(unknown, names);
  const std::string hint =
      similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", "));
  return fmt::format("there is no \"{}\"{}; {}{}", unknown,
                     chosen.empty() ? "" : " in frugal " + command.get_name(), hint, help);
}

Exit report(const std::string& message, Exit status) {
  if (Processes::speaks()) fmt::print(stderr, "frugal: {}\n", message);
  return status;
}

/// The error in words: that of this process alone, or of all processes, where several run together.
Exit report_error(const std::exception_ptr& error) {
  Failure failure = failure_of(error, -1);
  if (Processes* const processes = Processes::here()) {
    failure.rank = processes->rank();
    failure = processes->world().fail(failure);
  }
  if (failure.kind != Failure::Kind::error) return report(failure.reason, exit_of(failure.kind));
  return report(fmt::format("internal error: {}", failure.reason), exit_of(failure.kind));
}

}  // namespace

CommandLine::CommandLine(Artifacts artifacts, Benchmarks benchmarks, Papers papers)
    : artifacts_(std::move(artifacts)),
      benchmarks_(std::move(benchmarks)),
      papers_(std::move(papers)),
      app_(std::make_unique<CLI::App>(
          "Reproduces what papers report about training large transformers in little memory, and "
          "measures your own configurations.",
          "frugal")) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", "frugal " FRUGAL_VERSION, "Print the version and exit");
  app_->footer(footer);
  app_->get_formatter()->column_width(34);
  for (const auto add :
       {add_list,      add_reproduce, add_explain,   add_predict,    add_measure,    add_longest,
        add_recompute, add_plan,      add_calibrate, add_trace,      add_operations, add_flops,
        add_peak,      add_bench,     add_rerun,     add_compare,    add_validate,   add_schedule,
        add_import,    add_export,    add_report,    add_completion, add_docs})
    add(*this);
  app_->get_subcommand("docs")->group("");  // hidden
}

CommandLine::~CommandLine() = default;

Flags CommandLine::command(const std::string& name, const std::string& help,
                           std::function<Exit()> run, Ranks ranks) {
  CLI::App* command = app_->add_subcommand(name, help);
  command->callback([this, ranks, run = std::move(run)] {
    chosen_ = run;
    ranks_ = ranks;
  });
  return Flags(*command);
}

namespace {

/// Records, and messages of one line, have what was given.
void check_characters(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i)
    if (!kernels::is_utf8(argv[i]))
      throw InputError(
          fmt::format("argument {} has characters that are not in UTF-8; name files in UTF-8, and "
                      "give all else "
                      "so, too",
                      i));
}

}  // namespace

Exit CommandLine::parse_and_run(int argc, const char* const* argv) {
  check_characters(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app_->get_subcommands();
    fmt::print("{}", chosen.empty() ? app_->help() : chosen.front()->help());
    return Exit::done;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return Exit::done;
  } catch (const CLI::ParseError& error) {
    throw InputError(describe(error, *app_));
  }
  if (ranks_ == Ranks::threads)
    Processes::need_one("frugal " + app_->get_subcommands().front()->get_name());
  return chosen_();
}

int CommandLine::main(int argc, const char* const* argv) {
  on_stuck_rank() = [](const Failure& failure) {
    report(failure.reason + "; a rank does not end, so the program does", exit_of(failure.kind));
    std::_Exit(static_cast<int>(exit_of(failure.kind)));
  };
  std::unique_ptr<Processes> processes;
  try {
    processes = Processes::if_launched();
  } catch (...) {
    return static_cast<int>(report_error(std::current_exception()));
  }
  const int status = static_cast<int>(run_alone(argc, argv));
  return processes ? processes->end(status) : status;
}

Exit CommandLine::run_alone(int argc, const char* const* argv) {
  const Exit status = run_guarded(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return report("stdout cannot be written; what was recorded is kept",
                status == Exit::done ? Exit::bad_input : status);
}

Exit CommandLine::run_guarded(int argc, const char* const* argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const GpuLost& error) {
    return report(error.what(), Exit::gpu_lost);
  } catch (...) {
    if (std::ferror(stdout) != 0) return Exit::done;  // run_alone() says so
    return report_error(std::current_exception());
  }
}

}  // namespace frugal::harness
