#include "harness/import/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <optional>
#include <set>

#include "harness/import/sealed_bash.h"
#include "kernels/support/embedded.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using Clock = std::chrono::steady_clock;
using NameList = std::vector<std::string>;

constexpr auto longest_run = std::chrono::seconds(4);
constexpr int most_paths = 8;  // programs that are called by a path, one behind the other

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

void add_once(NameList& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) c == '\'' ? all += "'\\''" : all += c;
  return all + "'";
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// The length of what a reader is to fill in, "<path to data>"; 0 where there is no such text.
size_t to_fill_in(std::string_view rest) {
  const size_t end = rest.find_first_of("<>\n|;&()$", 1);
  const bool named = rest.starts_with("<") && end != std::string_view::npos && end > 1 &&
                     rest[end] == '>' && rest[end - 1] != ' ' &&
                     std::isalpha(static_cast<unsigned char>(rest[1])) != 0;
  return named ? end + 1 : 0;
}

/// Script in which each text to be filled in, such as "<path to data>", is one quoted word. Bash
/// would read it as two redirections, where it stands outside of quotes.
std::string with_blanks_to_fill(std::string_view text) {
  std::string out;
  char quote = ' ';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const size_t blank = quote == ' ' && !out.ends_with('<') ? to_fill_in(text.substr(i)) : 0;
    if (blank > 0) {
      out += quoted(std::string(text.substr(i, blank)));
      i += blank - 1;
      continue;
    }
    out += c;
    if (quote == ' ' && c == '#' &&
        (i == 0 || std::isspace(static_cast<unsigned char>(text[i - 1])) != 0)) {
      const size_t end = std::min(text.find('\n', i), text.size());
      out += text.substr(i + 1, end - i - 1);
      i = end - 1;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      out += text[++i];
    } else if (c == quote) {
      quote = ' ';
    } else if (quote == ' ' && (c == '"' || c == '\'')) {
      quote = c;
    }
  }
  return out;
}

std::string_view name_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && in_name(text[end])) ++end;
  const bool number = end > at && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  return text.substr(at, number ? 0 : end - at);
}

/// Whether what stands behind a name assigns it: "=", "+=", "[...]=".
bool is_assigned(std::string_view rest) {
  if (rest.starts_with("[")) rest.remove_prefix(std::min(rest.find(']'), rest.size() - 1) + 1);
  if (rest.starts_with("+")) rest.remove_prefix(1);
  return rest.starts_with("=") && !rest.starts_with("==");
}

/// NameList that a script sets somewhere, whether that is reached or not.
NameList names_set_in(std::string_view text) {
  NameList names;
  std::string_view before;  // the word before
  bool read = false;        // the words behind `read`
  for (size_t at = 0; at < text.size();) {
    if (!in_name(text[at])) {
      read = read && std::string_view("\n;|<&)").find(text[at]) == std::string_view::npos;
      ++at;
      continue;
    }
    const std::string_view name = name_at(text, at);
    const bool begins =
        at == 0 || std::string_view(" \t\n;(&|\"'`").find(text[at - 1]) != std::string_view::npos;
    size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    const bool sets = read || before == "for" || before == "local" || before == "getopts" ||
                      is_assigned(text.substr(end));
    if (!name.empty() && begins && sets) add_once(names, std::string(name));
    read = read || name == "read" || name == "mapfile" || name == "readarray";
    before = begins ? text.substr(at, end - at) : std::string_view();
    at = end;
  }
  return names;
}

/// The script's arguments: those that are given, and "${1}" for those that it uses; none where it
/// goes through all that there are.
NameList arguments_of_script(std::string_view text,
                             const std::map<std::string, std::string>& given) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const bool goes_through = has("shift") || has("getopts") || has("$@") || has("$*");
  NameList arguments;
  for (char n = '1'; n <= '9'; ++n) {
    const auto argument = given.find(std::string(1, n));
    const bool used = has(fmt::format("${}", n)) || has(fmt::format("${{{}}}", n)) ||
                      has(fmt::format("${{{}:?", n)) || has(fmt::format("${{{}?", n));
    if (argument == given.end() && (goes_through || !used)) continue;
    arguments.resize(static_cast<size_t>(n - '0'));
    arguments.back() = argument == given.end() ? fmt::format("${{{}}}", n) : argument->second;
  }
  return arguments;
}

/// Variables that Slurm sets for a job, from comments of its script such as "#SBATCH --nodes=24".
std::map<std::string, std::string> slurm_variables(const std::string& text) {
  struct Option {
    std::string_view name, letter;
    NameList variables;
  };
  static const std::array options = {
      Option{"--nodes", "-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      Option{"--ntasks", "-n", {"SLURM_NTASKS", "SLURM_NPROCS"}},
      Option{"--ntasks-per-node", "", {"SLURM_NTASKS_PER_NODE"}},
      Option{"--gpus-per-node", "", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
      Option{"--gres", "", {"SLURM_GPUS_ON_NODE"}}};
  std::map<std::string, std::string> variables;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    NameList words = split_words(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (words.size() < 2 || words.front() != "#SBATCH") continue;
    if (const size_t equals = words[1].find('='); equals != std::string::npos) {
      words.insert(words.begin() + 2, words[1].substr(equals + 1));
      words[1].resize(equals);
    }
    if (words.size() < 3) continue;
    const std::string value = words[2].substr(words[2].rfind(':') + 1);  // "gpu:a100:8"
    for (const Option& option : options)
      if (words[1] == option.name || (!option.letter.empty() && words[1] == option.letter))
        for (const std::string& variable : option.variables) variables[variable] = value;
  }
  return variables;
}

bool is_variable(const std::string& name) {
  return !name.empty() && name_at(name, 0).size() == name.size();
}

/// Text that goes before the script: variables, and what replaces files and programs.
std::string prologue(const std::string& text, const std::map<std::string, std::string>& given,
                     const std::map<std::string, std::string>& environment,
                     const std::set<std::string>& paths, bool all_true) {
  std::string before = "declare -A frugal_given=(";
  for (const auto& [name, value] : given)
    if (is_variable(name)) before += fmt::format(" [{}]={}", name, quoted(value));
  before += " )\nfrugal_own=' ";
  for (const std::string& name : names_set_in(text)) before += name + " ";
  before += fmt::format("'\nfrugal_all_true={}\n", all_true ? "1" : "");
  for (const auto& [name, value] : environment)
    before += fmt::format("{}={}\n", name, quoted(value));
  for (const std::string& path : paths)
    before += fmt::format("function {} {{ (frugal_run {} \"$@\"); }}\n", path, path);
  before += "set --";
  for (const std::string& argument : arguments_of_script(text, given))
    before += " " + quoted(argument);
  return before + "\n" + std::string(*kernels::embedded_file("harness/import/follow.sh"));
}

struct Message {
  int line;
  std::string text;
};

/// "a.sh: line 3: text", of bash itself, not of a script that it ran within the script.
std::optional<Message> message_of_bash(std::string_view line, const std::string& file) {
  for (const char* between : {": line ", ": -c: line "}) {
    const std::string begin = file + between;
    if (!line.starts_with(begin)) continue;
    int number = 0;
    const char* const digits = line.data() + begin.size();
    const auto [rest, error] = std::from_chars(digits, line.data() + line.size(), number);
    const std::string_view behind = line.substr(static_cast<size_t>(rest - line.data()));
    if (error == std::errc() && behind.starts_with(": "))
      return Message{number, std::string(behind.substr(2))};
  }
  return std::nullopt;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Programs that were called by a path, which bash does not hand over as it does a name.
std::set<std::string> called_by_path(const std::string& messages, const std::string& file) {
  std::set<std::string> paths;
  const std::string refusal = fmt::format(": {}", sealed_refusal);
  for (const std::string_view line : lines_of(messages)) {
    auto message = message_of_bash(line, file);
    if (!message || !message->text.ends_with(refusal)) continue;
    message->text.resize(message->text.size() - refusal.size());
    const bool plain = std::all_of(message->text.begin(), message->text.end(), [](char c) {
      return in_name(c) || std::string_view("/.-+@%:").find(c) != std::string_view::npos;
    });
    if (plain) paths.insert(message->text);
  }
  return paths;
}

}  // namespace

bool is_open(std::string_view text) {
  return text.find("${") != std::string_view::npos ||
         text.find(shell_output) != std::string_view::npos;
}

std::vector<std::string> open_names(std::string_view text) {
  NameList names;
  for (size_t at = 0; (at = text.find("${", at)) != std::string_view::npos; at += 2)
    add_once(names, std::string(text.substr(at + 2, text.find('}', at) - at - 2)));
  return names;
}

std::vector<std::string> split_words(std::string_view text) {
  NameList words;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

ShellScript::ShellScript(std::string text, const std::string& file,
                         const std::map<std::string, std::string>& given, Untold untold)
    : environment_(slurm_variables(text)) {
  for (const auto& [name, value] : given)
    if (!is_variable(name) && !(name.size() == 1 && name >= "1" && name <= "9"))
      throw InputError(fmt::format(
          "--set is \"{}={}\"; it must be NAME=VALUE, a variable of the script", name, value));
  replace_all(text, "\r\n", "\n");
  text = with_blanks_to_fill(text);
  check(text, file);
  for (const char* from : {"< /dev/null", "</dev/null"})
    replace_all(text, from, fmt::format("<&{}", sealed_null));
  const auto deadline = Clock::now() + longest_run;
  std::set<std::string> paths;
  for (int pass = 0;; ++pass) {
    const std::string before =
        prologue(text, given, environment_, paths, untold == Untold::as_true);
    const SealedBash bash = run_sealed_bash(before + text, file, false, deadline);
    const auto more = called_by_path(bash.messages, file);
    const size_t known = paths.size();
    paths.insert(more.begin(), more.end());
    if (paths.size() > known && pass < most_paths && bash.ended) continue;
    const int first_line = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    read_records(bash.written, first_line);
    read_messages(bash.messages, file, first_line);
    if (bash.ended) break;
    const std::string why = fmt::format(
        "it does not end within {} s, or does too much; what else it starts is not known",
        longest_run.count());
    if (commands_.empty())
      throw InputError(
          fmt::format("{}: {}; give the arguments as a list that begins with --", file, why));
    left_out_.push_back(why);
    break;
  }
  for (const auto& [name, value] : given) environment_[name] = value;
}

void ShellScript::check(const std::string& text, const std::string& file) const {
  const SealedBash bash = run_sealed_bash(text, file, true, Clock::now() + longest_run);
  if (!bash.started)
    throw InputError(
        fmt::format("{}: it is not followed: {}; give the arguments as a list that begins with --",
                    file, bash.messages));
  for (const std::string_view line : lines_of(bash.messages))
    if (const auto message = message_of_bash(line, file))
      throw InputError(
          fmt::format("{}, line {}: {}, as bash reads it", file, message->line, message->text));
}

void ShellScript::read_records(const std::string& written, int first_line) {
  std::map<std::string, std::string, std::less<>> begun;  // texts, by the process that writes them
  std::map<std::string, NameList, std::less<>> words;
  const auto line_of = [&](const std::string& text) {
    int line = 0;
    std::from_chars(text.data(), text.data() + text.size(), line);
    return std::max(line - first_line, 1);
  };
  const auto in_words = [&](const std::string& text) {
    const size_t blank = std::min(text.find(' '), text.size());
    return fmt::format("line {}:{}", line_of(text), text.substr(blank));
  };
  for (const std::string_view record : lines_of(written)) {
    const size_t blank = record.find(' ');
    if (blank == std::string_view::npos || blank + 1 == record.size()) continue;
    const std::string process(record.substr(0, blank));
    std::string& text = begun[process];
    text += record.substr(blank + 2);
    std::replace(text.begin(), text.end(), '\1', '\n');
    switch (record[blank + 1]) {
      case '+':
        continue;
      case 'w':
        words[process].push_back(text);
        break;
      case 'c':
        commands_.push_back({std::move(words[process]), line_of(text)});
        words.erase(process);
        break;
      case 'u':
        add_once(untold_, in_words(text));
        break;
      case 'a':
        add_once(asked_, text);
        break;
      case 'n':
        add_once(left_out_, in_words(text));
        break;
      case 'v':
        variables_.emplace_back(text, NameList());
        break;
      case 'e':
        if (!variables_.empty()) variables_.back().second.push_back(text);
        break;
      default:
        break;
    }
    text.clear();
  }
}

void ShellScript::read_messages(const std::string& messages, const std::string& file,
                                int first_line) {
  constexpr std::array told = {"division by 0",     "bad substitution", "syntax error",
                               "readonly variable", "cannot allocate",  "value too great"};
  constexpr std::string_view no_file = ": No such file or directory";
  for (const std::string_view line : lines_of(messages)) {
    auto message = message_of_bash(line, file);
    if (!message || message->line <= first_line ||
        message->text.find("/dev/null") != std::string::npos)
      continue;
    std::string& text = message->text;
    if (text.ends_with(no_file))
      text = text.substr(0, text.size() - no_file.size()) + ", which is not read";
    else if (std::none_of(told.begin(), told.end(),
                          [&](const char* part) { return text.find(part) != std::string::npos; }))
      continue;
    add_once(left_out_, fmt::format("line {}: {}", message->line - first_line, text));
  }
}

std::string ShellScript::variable(const std::string& name) const {
  for (const auto& [known, values] : variables_)
    if (known == name && !values.empty()) return values.front();
  const auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

}  // namespace frugal::harness
