#include "harness/cli/documented.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace frugal::harness {

std::vector<const CLI::App*> listed_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) commands.push_back(command);
  return commands;
}

std::string usage_of(const CLI::App& command) {
  std::string usage = "frugal " + command.get_name();
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) {
      const std::string name =
          option->get_name() + (option->get_items_expected_max() > 1 ? "…" : "");
      usage += option->get_required() ? " " + name : " [" + name + "]";
    }
  return usage;
}

std::vector<DocumentedOption> documented_options(const CLI::App& command) {
  std::vector<DocumentedOption> documented;
  for (const CLI::Option* option : command.get_options()) {
    DocumentedOption one{
        option->get_positional() ? option->get_name() : option->get_name(false, true),
        option->get_description()};
    if (!option->get_default_str().empty())
      one.meaning += fmt::format(" (default: {})", option->get_default_str());
    if (!option->get_type_name().empty() && !option->get_positional())
      one.name += " " + option->get_type_name();
    documented.push_back(one);
  }
  return documented;
}

const std::vector<DocumentedStatus>& documented_statuses() {
  static const std::vector<DocumentedStatus> statuses{
      {Exit::done, "done"},
      {Exit::claim_failed,
       "a claim was not reproduced, and `--check` was given; or real memory did not do as "
       "`longest` found; or `calibrate --check` found that a machine's file is not what fitting "
       "gives; or `compare --fail-on` found such a change; or `validate` found what is slower than "
       "it should be; or `rerun` found a value that differs from the recorded one"},
      {Exit::bad_input,
       "bad input; nothing was written. Or `rerun` lacks what a record does not hold"},
      {Exit::out_of_memory, "out of memory; the record says how much was missing"},
      {Exit::deadline, "a deadline passed"},
      {Exit::peer_lost, "a peer was lost"},
      {Exit::wrong_numbers,
       "wrong numbers, such as a loss that is not finite or a result of `validate`, or an error of "
       "frugal "
       "itself"},
      {Exit::gpu_lost,
       "a case of `reproduce` lost the GPU, as an illegal access does, so that no further one was "
       "run; what was recorded is kept, and the same command runs the rest"},
      {Exit::interrupted,
       "interrupted; what was recorded is kept, and the same command runs what was not"}};
  return statuses;
}

const std::vector<std::string>& documented_endings() {
  static const std::vector<std::string> endings{
      "`reproduce` goes on after a case that did not end well, and exits with the highest status "
      "of its cases. Without `--check` a claim that is not reproduced is a result like any other: "
      "status 0.",
      "Every error is one line on stderr that begins with `frugal: `. Results go to stdout, "
      "progress to stderr."};
  return endings;
}

}  // namespace frugal::harness
