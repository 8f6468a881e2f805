#include "harness/import/argument_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "harness/import/printed_arguments.h"
#include "harness/import/shell.h"
#include "kernels/support/error.h"
#include "kernels/support/utf8.h"

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

size_t arguments_among(const Words& words, size_t from) {
  return static_cast<size_t>(
      std::count_if(words.begin() + static_cast<std::ptrdiff_t>(from), words.end(), is_argument));
}

/// Behind the last word that names a Python file; none where there is no such word.
std::optional<size_t> behind_program(const Words& words) {
  for (size_t i = words.size(); i > 0; --i)
    if (words[i - 1].ends_with(".py")) return i;
  return std::nullopt;
}

std::optional<int64_t> number_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  return error == std::errc() && rest == end && value > 0 ? std::optional(value) : std::nullopt;
}

/// What torchrun is to start, of the words before the program.
std::optional<int64_t> started_ranks(const Words& launcher) {
  const auto value = [&](const std::string& name) -> std::optional<int64_t> {
    for (size_t i = 0; i < launcher.size(); ++i) {
      std::string word = launcher[i];
      std::replace(word.begin(), word.end(), '_', '-');
      if (word == name && i + 1 < launcher.size()) return number_of(launcher[i + 1]);
      if (word.starts_with(name + "=")) return number_of(launcher[i].substr(name.size() + 1));
    }
    return std::nullopt;
  };
  const auto of_node = value("--nproc-per-node");
  const bool several = std::any_of(launcher.begin(), launcher.end(), [](const std::string& word) {
    return word.starts_with("--nnodes");
  });
  const auto nodes = several ? value("--nnodes") : std::optional<int64_t>(1);  // torchrun's default
  if (of_node && nodes && *of_node < (1 << 20) && *nodes < (1 << 20)) return *of_node * *nodes;
  return std::nullopt;
}

/// The arguments of the command that has most of them behind a program.
std::optional<ArgumentList> of_command(const ShellScript& script, const std::string& file) {
  Words words;
  size_t begin = 0, most = 0;
  for (const ShellCommand& command : script.commands()) {
    const Words these = each_word(command.words);
    const auto behind = behind_program(these);
    const size_t count = behind ? arguments_among(these, *behind) : 0;
    if (count == 0 || count < most) continue;  // of several as long the last: others may be echoed
    most = count;
    words = these;
    begin = *behind;
  }
  if (most == 0) return std::nullopt;
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(begin);
  ArgumentList list = arguments_of({middle, words.end()}, file);
  const std::string& program = words[begin - 1];
  list.program = program.substr(program.rfind('/') + 1);
  list.ranks = started_ranks({words.begin(), middle});
  return list;
}

/// Behind the first argument of each command or variable.
Words loose_words(const ShellScript& script) {
  std::vector<Words> texts;
  for (const ShellCommand& command : script.commands())
    if (is_argument(command.words.front())) texts.push_back(each_word(command.words));
  if (texts.empty()) texts.push_back(each_word(script.unused()));
  Words words;
  for (const Words& text : texts)
    words.insert(words.end(), std::find_if(text.begin(), text.end(), is_argument), text.end());
  return words;
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
  const std::optional<size_t> at = kernels::first_not_utf8(text);
  if (!at) return;
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  throw InputError(fmt::format(
      "{}, line {}: its characters are not in UTF-8; convert it with iconv", file, lines + 1));
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

ArgumentList arguments_in(const std::string& text, const std::string& file,
                          const std::map<std::string, std::string>& given) {
  check_text(text, file);
  if (const auto printed = printed_arguments(text, file)) return *printed;
  // Only in a list of arguments may each word have a line of its own.
  std::string joined = text;
  if (begins_with_argument(text)) {
    std::string lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      const size_t comment = line.starts_with("#") ? 0 : line.find(" #");
      lines += line.substr(0, comment) + " ";
      at = end + 1;
    }
    std::erase(lines, '\\');
    joined = quoted_operators(lines);
  }
  const ShellScript script(joined, file, given);
  auto list = of_command(script, file);
  if (!list) list = arguments_of(loose_words(script), file);
  if (list->all.empty())
    throw InputError(fmt::format(
        "{}: there are no arguments in it, which begin with --; give a script, a list of them, or "
        "the format of another file by --from",
        file));
  list->left_out = script.left_out();
  if (!list->ranks) list->ranks = number_of(script.variable("WORLD_SIZE"));
  return *list;
}

}  // namespace frugal::harness
