#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "harness/cli/command_line.h"
#include "harness/cli/documented.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// A flag as the shells need it.
struct Flag {
  std::string name, help;
  std::vector<std::string> choices;  ///< of its value
  bool file = false;                 ///< whether its value can be a path
};

std::vector<Flag> flags_of(const CLI::App& command) {
  std::vector<Flag> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) continue;
    words.push_back({option->get_name(false, true), option->get_description(), {}, false});
    const auto alternatives = CLI::detail::split(option->get_type_name(), '|');
    for (const std::string& value : alternatives) {
      // Capitals stand for something else: FILE, DIR, NAME, virtual:MACHINE.
      const bool file = value.find("FILE") != std::string::npos || value == "DIR";
      words.back().file = words.back().file || file;
      if (alternatives.size() > 1 && !file && value != "NAME" && !value.ends_with("MACHINE"))
        words.back().choices.push_back(value);
    }
    // "-h,--help": the long name.
    words.back().name = words.back().name.substr(words.back().name.rfind(',') + 1);
  }
  return words;
}

/// What can stand without a flag: artifacts, the shells, or the kinds of schedules.
std::vector<std::string> operands_of(const CLI::App& command, const Artifacts& artifacts) {
  if (command.get_name() == "completion") return {"bash", "zsh", "fish"};
  if (command.get_name() == "schedule") return ScheduleKind::names();
  std::vector<std::string> ids;
  if (command.get_name() == "list" || command.get_name() == "reproduce")
    for (const Artifact* artifact : artifacts) ids.push_back(artifact->id());
  return ids;
}

std::string bash(const CLI::App& app, const Artifacts& artifacts) {
  std::vector<std::string> names;
  std::string values, words;
  for (const CLI::App* command : listed_commands(app)) {
    names.push_back(command->get_name());
    std::vector<std::string> all = operands_of(*command, artifacts);
    for (const Flag& flag : flags_of(*command)) {
      all.push_back(flag.name);
      const std::string key = command->get_name() + " " + flag.name;
      if (flag.file || !flag.choices.empty())
        values += fmt::format("    \"{}\") words=\"{}\"{} ;;\n", key, fmt::join(flag.choices, " "),
                              flag.file ? " files=-f" : "");
    }
    words += fmt::format("      {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(all, " "));
  }
  return fmt::format(R"(# bash completion for frugal: source <(frugal completion bash)
_frugal() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words="" files=""
  local command="${{COMP_WORDS[1]}}"
  case "$command $previous" in
{}    *) case "$command" in
{}      esac ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{} --help --version"
  COMPREPLY=($(compgen $files -W "$words" -- "$current"))
}}
complete -F _frugal frugal
)",
                     values, words, fmt::join(names, " "));
}

/// For the inside of single quotes, and of zsh's brackets.
std::string quoted(const std::string& text, bool zsh) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += R"('\'')";
    else if (zsh && (c == '[' || c == ']' || c == ':'))
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zsh(const CLI::App& app, const Artifacts& artifacts) {
  std::string names, cases;
  for (const CLI::App* command : listed_commands(app)) {
    names +=
        fmt::format("    '{}:{}'\n", command->get_name(), quoted(command->get_description(), true));
    std::string arguments;
    for (const Flag& flag : flags_of(*command)) {
      std::string value;
      if (flag.file)
        value = ":file:_files";
      else if (!flag.choices.empty())
        value = fmt::format(":value:({})", fmt::join(flag.choices, " "));
      arguments +=
          fmt::format(" \\\n        '{}[{}]{}'", flag.name, quoted(flag.help, true), value);
    }
    if (const auto operands = operands_of(*command, artifacts); !operands.empty())
      arguments += fmt::format(" \\\n        '*:name:({})'", fmt::join(operands, " "));
    cases += fmt::format("    {}) _arguments{} ;;\n", command->get_name(), arguments);
  }
  return fmt::format(R"(#compdef frugal
# zsh completion for frugal: frugal completion zsh > a folder of $fpath, as _frugal
_frugal() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command="$words[2]"
  shift words; (( CURRENT-- ))
  case "$command" in
{}  esac
}}
_frugal "$@"
)",
                     names, cases);
}

std::string fish(const CLI::App& app, const Artifacts& artifacts) {
  std::string out =
      "# fish completion for frugal: frugal completion fish | source\n"
      "complete -c frugal -f\n";
  for (const CLI::App* command : listed_commands(app)) {
    out += fmt::format("complete -c frugal -n __fish_use_subcommand -a {} -d '{}'\n",
                       command->get_name(), quoted(command->get_description(), false));
    const std::string seen =
        fmt::format("complete -c frugal -n '__fish_seen_subcommand_from {}'", command->get_name());
    for (const Flag& flag : flags_of(*command)) {
      std::string value;
      if (flag.file || !flag.choices.empty()) value = flag.file ? " -r -F" : " -x";
      if (!flag.choices.empty()) value += fmt::format(" -a '{}'", fmt::join(flag.choices, " "));
      out += fmt::format("{} -l {}{} -d '{}'\n", seen, flag.name.substr(2), value,
                         quoted(flag.help, false));
    }
    if (const auto operands = operands_of(*command, artifacts); !operands.empty())
      out += fmt::format("{} -a '{}'\n", seen, fmt::join(operands, " "));
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const Artifacts& artifacts,
                              const std::string& shell) {
  if (shell == "bash") return bash(app, artifacts);
  if (shell == "zsh") return zsh(app, artifacts);
  if (shell == "fish") return fish(app, artifacts);
  throw InputError(fmt::format("shell is \"{}\"; it must be bash, zsh or fish", shell));
}

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  Flags flags = line.command("completion", "Print a shell's completion script", [shell, &line] {
    fmt::print("{}", completion_script(line.app(), line.artifacts(), *shell));
    return Exit::done;
  });
  flags.positional("SHELL", *shell, "bash, zsh or fish");
}

}  // namespace frugal::harness
