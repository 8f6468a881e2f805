#include "harness/import/argument_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

#include "harness/import/imported.h"
#include "harness/import/launcher.h"
#include "harness/import/megatron_table.h"
#include "harness/import/printed_arguments.h"
#include "harness/import/shell_script.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using Words = std::vector<std::string>;

bool is_argument(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

/// Whether a word is an argument, or one whose dashes are wrong: "-swiglu", or a dash of a text.
bool stands_for_argument(const std::string& word) {
  const bool dash =
      word.size() > 2 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1]));
  return is_argument(word) || dash || word.starts_with("\u2013") || word.starts_with("\u2014");
}

/// What was one word for the shell may be several for a reader: "--split 99,1,0" of an array.
Words each_word(const Words& words) {
  Words all;
  for (const std::string& word : words)
    for (std::string& one : split_words(word)) all.push_back(std::move(one));
  return all;
}

bool has_argument(const Words& words) {
  return std::any_of(words.begin(), words.end(), is_argument);
}

/// Index behind the program that a command starts: the last word that names a Python file, or a
/// module that is no launcher; none where there is no such word.
std::optional<size_t> behind_program(const Words& words) {
  for (size_t i = words.size(); i > 0; --i) {
    const std::string& word = words[i - 1];
    if (word.ends_with(".py")) return i;
    if (i > 1 && words[i - 2] == "-m" && !word.starts_with("torch.distributed")) return i;
  }
  return std::nullopt;
}

/// A command of a script that starts a program with arguments.
struct Launch {
  int line = 0;
  ArgumentList list;
};

std::optional<Launch> launch_of(const ShellCommand& command, const ShellScript& script,
                                const std::string& file) {
  const Words words = each_word(command.words);
  const auto behind = behind_program(words);
  if (!behind) return std::nullopt;
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(*behind);
  const Words arguments(middle, words.end());
  if (!has_argument(arguments)) return std::nullopt;
  Launch launch{command.line, arguments_of(arguments, file)};
  const std::string& program = words[*behind - 1];
  launch.list.program = program.substr(program.rfind('/') + 1);
  const auto [ranks, unknown] = started_ranks(
      {words.begin(), middle}, [&](const std::string& name) { return script.variable(name); });
  launch.list.ranks = ranks ? ranks : count_in(script.variable("WORLD_SIZE"));
  if (!launch.list.ranks) launch.list.ranks_unknown = unknown;
  return launch;
}

/// Arguments that decide memory and time, program and ranks; two launches may differ in others.
std::map<std::string, std::string> with_effect(const ArgumentList& list) {
  std::map<std::string, std::string> texts;
  for (const Argument& argument : list.all)
    if (find_known(megatron_without_effect(), argument.name) == nullptr &&
        find_known(megatron_without_effect(), argument.text()) == nullptr)
      texts[argument.name] =
          argument.values.empty() ? "given" : fmt::format("{}", fmt::join(argument.values, " "));
  texts["program"] = list.program;
  texts["ranks"] = list.ranks ? fmt::format("{}", *list.ranks) : list.ranks_unknown;
  return texts;
}

/// The launches of a model's training, each once: those with a number of layers, or else those with
/// as many arguments as any.
std::vector<Launch> launches_in(const ShellScript& script, const std::string& file) {
  std::vector<Launch> all;
  for (const ShellCommand& command : script.commands())
    if (auto launch = launch_of(command, script, file)) all.push_back(std::move(*launch));
  const auto trains = [](const Launch& launch) {
    return std::any_of(launch.list.all.begin(), launch.list.all.end(), [](const Argument& one) {
      return one.name == "--num-layers" || one.name == "--encoder-num-layers";
    });
  };
  size_t most = 0;
  for (const Launch& launch : all) most = std::max(most, launch.list.all.size());
  const bool some = std::any_of(all.begin(), all.end(), trains);
  std::vector<Launch> different;
  for (Launch& launch : all) {
    if (some ? !trains(launch) : launch.list.all.size() < most) continue;
    if (std::none_of(different.begin(), different.end(), [&](const Launch& other) {
          return with_effect(other.list) == with_effect(launch.list);
        }))
      different.push_back(std::move(launch));
  }
  return different;
}

/// "--tensor-model-parallel-size (1, 2)", for each argument that launches do not have alike.
std::string differences(const std::vector<Launch>& launches) {
  constexpr size_t most_said = 4;
  std::map<std::string, Words> values;  // of each launch
  for (const Launch& launch : launches)
    for (const auto& [name, text] : with_effect(launch.list)) values[name];
  for (const Launch& launch : launches) {
    auto texts = with_effect(launch.list);
    for (auto& [name, all] : values) all.push_back(texts.contains(name) ? texts[name] : "none");
  }
  Words parts;
  for (auto& [name, all] : values) {
    if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end()) continue;
    const bool more = all.size() > most_said;
    if (more) all.resize(most_said);
    parts.push_back(fmt::format("{} ({}{})", name, fmt::join(all, ", "), more ? ", ..." : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

ArgumentList chosen(std::vector<Launch> launches, const std::string& file,
                    std::optional<int64_t> number) {
  const auto count = static_cast<int64_t>(launches.size());
  if (number && *number > count)
    throw InputError(fmt::format("{}: --launch is {}, and there {} {}", file, *number,
                                 count == 1 ? "is only" : "are only", count));
  if (number || count == 1)
    return std::move(launches[static_cast<size_t>(number.value_or(1) - 1)].list);
  std::set<int> lines;
  for (const Launch& launch : launches) lines.insert(launch.line);
  throw InputError(fmt::format(
      "{}: {} launches (line {}), which differ in {}; choose one by --launch N, from 1 to {}", file,
      count, fmt::join(lines, ", "), differences(launches), count));
}

/// Words from the first argument on, of commands or of variables that the script does not use.
Words loose_words(const ShellScript& script, const std::string& text) {
  std::vector<Words> texts;
  for (const ShellCommand& command : script.commands())
    if (is_argument(command.words.front())) texts.push_back(each_word(command.words));
  if (texts.empty())
    for (const auto& [name, values] : script.variables())
      if (text.find("$" + name) == std::string::npos && text.find("${" + name) == std::string::npos)
        texts.push_back(each_word(values));
  Words words;
  for (const Words& one : texts)
    words.insert(words.end(), std::find_if(one.begin(), one.end(), is_argument), one.end());
  return words;
}

/// The list that a script's end leaves: of a launch, or else in its words.
ArgumentList list_of(const ShellScript& script, const std::string& text, const std::string& file,
                     std::optional<int64_t> number) {
  std::vector<Launch> launches = launches_in(script, file);
  if (!launches.empty()) return chosen(std::move(launches), file, number);
  ArgumentList list = arguments_of(loose_words(script, text), file);
  list.ranks = count_in(script.variable("WORLD_SIZE"));
  return list;
}

/// Reports conditions that the machine would decide, unless the training is the same either way.
void read_untold(const ShellScript& script, const std::string& text, const ListOptions& options,
                 const std::string& file, ArgumentList& list) {
  if (script.untold().empty()) return;
  try {
    const ShellScript other(text, file, options.given, ShellScript::Untold::as_true);
    if (with_effect(list_of(other, text, file, options.launch)) == with_effect(list)) return;
  } catch (const InputError&) {  // it would start none, or several
  }
  for (const std::string& condition : script.untold())
    list.left_out.push_back(condition +
                            ", which the machine decides; followed as without files and programs");
}

ArgumentList list_in_script(const std::string& text, const std::string& file,
                            const ListOptions& options) {
  const ShellScript script(text, file, options.given);
  ArgumentList list = list_of(script, text, file, options.launch);
  const auto& left_out = script.left_out();
  if (list.all.empty() && !left_out.empty())
    throw InputError(fmt::format("{}: it starts no program with arguments; {}", file,
                                 fmt::join(left_out, "; ")));
  list.left_out.insert(list.left_out.end(), left_out.begin(), left_out.end());
  list.asked = script.asked();
  read_untold(script, text, options, file, list);
  return list;
}

/// The words of a list that is no script: quotes and "#" as a shell has them, and nothing else.
Words words_of_list(std::string_view text, const std::string& file) {
  Words words;
  std::optional<std::string> word;
  char quote = ' ';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (quote != ' ') {
      if (c == quote)
        quote = ' ';
      else
        *word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!word) word = "";
    } else if (c == '#' && !word) {
      i = std::min(text.find('\n', i), text.size());
    } else if (!blank && c != '\\') {
      word = word.value_or("") + c;
    } else if (word && blank) {
      words.push_back(std::move(*word));
      word.reset();
    }
  }
  if (quote != ' ') throw InputError(fmt::format("{}: the quote {} does not end", file, quote));
  if (word) words.push_back(std::move(*word));
  return words;
}

/// The lines of a text that are "--name: value", as Megatron-LM's tests have them in YAML.
std::string yaml_arguments(const std::string& text) {
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    const size_t colon = line.find(':');
    if (line.compare(begin, 2, "--") == 0 && colon < line.find_first_of(" \t\r=", begin))
      lines += line + "\n";
  }
  return lines;
}

/// Whether a text is a list of arguments and nothing else.
bool begins_with_argument(const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string::npos || text[at] != '#') break;
    at = text.find('\n', at);
  }
  return at < text.size() && text.compare(at, 2, "--") == 0;
}

/// The list that a text is; empty where it is a script.
std::string list_in_text(const std::string& text) {
  const std::string lines = yaml_arguments(text);
  return lines.empty() && begins_with_argument(text) ? text : lines;
}

/// The words of a list behind each other, without its comments, as a command has them.
std::string in_one_line(std::string_view list) {
  std::string line;
  while (!list.empty()) {
    const size_t end = std::min(list.find('\n'), list.size());
    const std::string_view one = list.substr(0, end);
    line += std::string(one.substr(0, one.starts_with("#") ? 0 : one.find(" #"))) + " ";
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  std::erase(line, '\\');
  return line;
}

/// A list in which what would end a command is a letter: "type:transformer|embedding".
std::string quoted_operators(const std::string& list) {
  std::string text;
  char quote = 0;
  int inside = 0;  // of ${ } and $( )
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    const bool opens = i > 0 && list[i - 1] == '$' && (c == '(' || c == '{');
    if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    if (quote == 0 && inside == 0 && !opens &&
        std::string_view("|;&<>()").find(c) != std::string_view::npos)
      text += '\\';
    if (opens || (inside > 0 && (c == '(' || c == '{')))
      ++inside;
    else if (inside > 0 && (c == ')' || c == '}'))
      --inside;
    text += c;
  }
  return text;
}

void check_text(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  int64_t number = 1;
  for (std::string line; std::getline(lines, line); ++number)
    if (!kernels::is_utf8(line))
      throw InputError(fmt::format(
          "{}, line {}: its characters are not in UTF-8; convert it with iconv", file, number));
}

}  // namespace

std::string Argument::text() const {
  return values.empty() ? name : fmt::format("{} {}", name, fmt::join(values, " "));
}

ArgumentList arguments_of(const std::vector<std::string>& words, const std::string& file) {
  ArgumentList list;
  for (const std::string& word : words) {
    if (!stands_for_argument(word)) {
      const bool first = list.all.empty();
      if (first && is_open(word)) continue;  // a variable that may have been arguments
      if (first)
        throw InputError(
            fmt::format("{}: \"{}\" stands before all arguments; these begin with --", file, word));
      list.all.back().values.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    Argument argument{word.substr(0, equals), {}};
    if (equals != std::string::npos) argument.values = {word.substr(equals + 1)};
    if (argument.name.ends_with(":")) argument.name.pop_back();
    std::erase_if(list.all, [&](const Argument& other) { return other.name == argument.name; });
    list.all.push_back(std::move(argument));
  }
  return list;
}

bool is_for_bash(const std::string& text) {
  const std::string list = list_in_text(text);
  return list.empty() || list.find_first_of("$`") != std::string::npos;
}

ArgumentList arguments_in(const std::string& text, const std::string& file,
                          const ListOptions& options) {
  check_text(text, file);
  if (const auto printed = printed_arguments(text, file)) return *printed;
  const std::string list = list_in_text(text);
  ArgumentList read;
  if (!is_for_bash(text))
    read = arguments_of(each_word(words_of_list(list, file)), file);
  else
    read = list_in_script(list.empty() ? text : quoted_operators(in_one_line(list)), file, options);
  if (read.all.empty())
    throw InputError(fmt::format(
        "{}: there are no arguments in it, which begin with --; give a script, a list of them, or "
        "the format of another file by --from",
        file));
  return read;
}

}  // namespace frugal::harness
