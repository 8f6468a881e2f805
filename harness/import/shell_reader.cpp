#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "harness/import/shell.h"
#include "harness/import/shell_condition.h"
#include "kernels/support/error.h"

namespace frugal::harness {

/// Reads a script from its beginning to its end. What stands in a branch that is not taken is read
/// like the rest, but does nothing (`live`).
class ShellReader {
 public:
  ShellReader(ShellScript& script, std::string_view text, std::string file, int line)
      : script_(script), text_(text), file_(std::move(file)), line_(line) {}

  void read() { (void)statements({}, true); }

 private:
  using Words = std::vector<std::string>;

  [[noreturn]] void fail(const std::string& what, int line) const {
    throw InputError(fmt::format("{}, line {}: {}", file_, line, what));
  }
  bool end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char next() {
    if (peek() == '\n') ++line_;
    return text_[at_++];
  }
  static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  /// Behind blanks, continued lines and a comment.
  void skip_blanks() {
    while (!end()) {
      if (peek() == '\\' && peek(1) == '\r' && peek(2) == '\n') at_ += 1;
      if (blank(peek())) {
        next();
      } else if (peek() == '\\' && peek(1) == '\n') {
        next();
        next();
      } else if (peek() == '#') {
        comment();
      } else {
        return;
      }
    }
  }
  /// Slurm reads some: how many nodes there are is set where a job runs.
  void comment() {
    const size_t begin = at_;
    while (!end() && peek() != '\n') next();
    const std::string line(text_.substr(begin, at_ - begin));
    for (const auto& [option, name] : {std::pair{"#SBATCH --nodes=", "SLURM_NNODES"},
                                       {"#SBATCH --nodes=", "SLURM_JOB_NUM_NODES"},
                                       {"#SBATCH --gpus-per-node=", "SLURM_GPUS_PER_NODE"}})
      if (line.starts_with(option)) {
        const Words words =
            split_words(std::string_view(line).substr(std::string_view(option).size()));
        if (!words.empty()) script_.variables_.environment(name, words.front());
      }
  }

  /// Behind an opening quote, to its end.
  std::string quoted(char quote, int from) {
    std::string text;
    for (;;) {
      if (end()) fail(fmt::format("the quote {} does not end", quote), from);
      const char c = next();
      if (c == quote) return text;
      if (quote == '"' && c == '\\' &&
          (peek() == '\n' || peek() == '"' || peek() == '\\' || peek() == '$')) {
        const char escaped = next();
        if (escaped != '\n') text += escaped;
      } else if (quote == '"' && c == '$') {
        text += fmt::format("{}", fmt::join(script_.variables_.expand(text_, at_, true), " "));
      } else if (quote == '"' && c == '`') {
        backquoted();
        text += shell_output;
      } else {
        text += c;
      }
    }
  }
  void backquoted() {
    const int from = line_;
    while (!end() && peek() != '`') next();
    if (end()) fail("the quote ` does not end", from);
    next();
  }
  static bool ends_word(char c) {
    return blank(c) || std::string_view("\n;&|()<>").find(c) != std::string_view::npos;
  }
  /// One word, which an array or white space in a variable makes several; `whole`: one text.
  Words word(bool whole) {
    Words fields;
    std::string text;
    bool any = false;
    while (!end() && !ends_word(peek())) {
      const int from = line_;
      const char c = next();
      if (c == '\\') {
        if (!end() && next() != '\n') text += text_[at_ - 1];
      } else if (c == '\'' || c == '"') {
        const bool array = c == '"' && !whole && text_.substr(at_).starts_with("${");
        Words parts = array ? array_in_quotes() : Words{};
        if (parts.empty()) parts = {quoted(c, from)};
        add(fields, text, parts, any);
        any = true;
        continue;
      } else if (c == '`') {
        backquoted();
        text += shell_output;
      } else if (c == '$') {
        Words parts = script_.variables_.expand(text_, at_, whole);
        if (!whole) parts = split_words(fmt::format("{}", fmt::join(parts, " ")));
        add(fields, text, parts, any);
      } else {
        text += c;
      }
      any = any || !text.empty();
    }
    if (any && (!text.empty() || fields.empty())) fields.push_back(text);
    return fields;
  }
  /// "${NAME[@]}" and nothing else: an element each.
  Words array_in_quotes() {
    const size_t close = text_.find('"', at_);
    const std::string_view inside =
        text_.substr(at_, close == std::string_view::npos ? 0 : close - at_);
    if (!inside.ends_with("[@]}") || inside.find('}') + 1 != inside.size()) return {};
    size_t behind = at_ + 1;
    Words elements = script_.variables_.expand(text_, behind, false);
    at_ = close + 1;
    return elements;
  }
  static void add(Words& fields, std::string& text, const Words& parts, bool& any) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) {
        fields.push_back(std::move(text));
        text.clear();
      }
      text += parts[i];
      any = true;
    }
  }

  /// Behind < or >, with what it leads to; a text up to a word of its own is left out.
  void redirection() {
    const bool document = text_.substr(at_).starts_with("<<") && peek(2) != '<';
    while (peek() == '<' || peek() == '>' || peek() == '&') next();
    if (document && peek() == '-') next();
    skip_blanks();
    const Words to = word(true);
    if (document && !to.empty()) documents_.push_back(to.front());
  }
  void end_line() {
    next();
    for (const std::string& delimiter : documents_)
      while (!end()) {
        const size_t begin = at_;
        while (!end() && peek() != '\n') next();
        const Words words = split_words(text_.substr(begin, at_ - begin));
        if (!end()) next();
        if (words.size() == 1 && words.front() == delimiter) break;
      }
    documents_.clear();
  }

  /// NAME=, NAME+= at this place; none otherwise.
  std::optional<std::pair<std::string, bool>> assignment() {
    size_t i = at_;
    while (i < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '_'))
      ++i;
    const std::string name(text_.substr(at_, i - at_));
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0)
      return std::nullopt;
    const bool append = text_.substr(i).starts_with("+=");
    if (!append && !text_.substr(i).starts_with("=")) return std::nullopt;
    at_ = i + (append ? 2 : 1);
    return std::pair{name, append};
  }
  void assign(const std::pair<std::string, bool>& to, bool live) {
    Words values;
    if (peek() == '(') {
      const int from = line_;
      next();
      for (;;) {
        skip_blanks();
        if (end()) fail(fmt::format("the list of {} does not end", to.first), from);
        if (peek() == ')') break;
        if (peek() == '\n' || ends_word(peek())) {
          next();
          continue;
        }
        for (std::string& value : word(false)) values.push_back(std::move(value));
      }
      next();
    } else {
      values = word(true);
      if (values.empty()) values = {""};
    }
    if (live)
      script_.variables_.assign(to.first, values, to.second);
    else
      ++skipped_;
  }

  static bool declares(const std::string& word) {
    return word == "export" || word == "local" || word == "declare" || word == "readonly" ||
           word == "typeset";
  }
  /// Up to the end of a command; assignments are made.
  Words command(bool live) {
    Words words;
    for (;;) {
      skip_blanks();
      const char c = peek();
      if (end() || c == '\n' || c == ';' || c == '|' || c == '(' || c == ')') return words;
      if (c == '&' && peek(1) != '>') return words;
      if (c == '<' || c == '>' || c == '&') {
        redirection();
        continue;
      }
      const bool before = words.empty() || (words.size() == 1 && declares(words.front()));
      if (const auto to = before ? assignment() : std::nullopt) {
        assign(*to, live);
        continue;
      }
      const Words more = word(false);
      const bool number = more.size() == 1 && (peek() == '<' || peek() == '>') &&
                          std::isdigit(static_cast<unsigned char>(more.front().front())) != 0;
      if (!number) words.insert(words.end(), more.begin(), more.end());
      if (more.size() == 1 && is_keyword(more.front()) && words.size() == 1) return words;
    }
  }
  static bool is_keyword(const std::string& word) {
    static const Words all = {"if", "then", "elif", "else", "fi", "for", "while", "until",
                              "do", "done", "case", "esac", "{",  "}",   "!",     "function"};
    return std::find(all.begin(), all.end(), word) != all.end();
  }

  /// Between `if` and `then`.
  std::optional<bool> condition() {
    script_.variables_.unset_is_empty(true);
    Words words;
    for (;;) {
      skip_blanks();
      if (end()) fail("an if has no then", line_);
      const char c = peek();
      if ((c == '&' || c == '|') && peek(1) == c) {
        words.push_back(std::string(2, c));
        at_ += 2;
      } else if (ends_word(c)) {
        if (c == '<' || c == '>') words.push_back(std::string(1, c));
        next();
      } else {
        Words one = word(true);
        if (one == Words{"then"}) break;
        words.push_back(one.empty() ? "" : one.front());
      }
    }
    script_.variables_.unset_is_empty(false);
    return shell_condition(words);
  }
  void branches(bool live) {
    const int from = line_;
    bool open = live;  // no branch has been taken
    std::string ended = "if";
    do {
      std::optional<bool> taken = true;
      const int line = line_;
      if (ended != "else") taken = condition();
      const int before = skipped_;
      ended = statements({"elif", "else", "fi"}, open && taken == true);
      if (ended.empty()) fail("an if has no fi", from);
      if (open && !taken && skipped_ > before)
        script_.left_out_.push_back(fmt::format(
            "line {}: whether its condition holds cannot be told from the text; taken as false",
            line));
      if (taken == true) open = false;
    } while (ended != "fi");
  }
  void block(const std::string& opened, bool live) {
    const int from = line_;
    const bool is_case = opened == "case";
    const int before = skipped_;
    const std::string end_word = is_case ? "esac" : opened == "{" ? "}" : "done";
    if (statements({end_word}, live && opened == "{").empty())
      fail(fmt::format("a {} has no {}", opened, end_word), from);
    if (live && opened != "{" && skipped_ > before)
      script_.left_out_.push_back(
          fmt::format("line {}: a {}, which is not followed", from, is_case ? "case" : "loop"));
  }
  void run(const Words& words, int line) {
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const bool shell = (words[i] == "bash" || words[i] == "sh" || words[i].ends_with("/bash")) &&
                         i + 2 < words.size() && words[i + 1].starts_with("-") &&
                         words[i + 1].ends_with("c");
      if (!shell && !(i == 0 && words[0] == "eval")) continue;
      const Words inside(words.begin() + static_cast<std::ptrdiff_t>(shell ? i + 2 : 1),
                         words.end());
      const std::string text = shell ? inside.front() : fmt::format("{}", fmt::join(inside, " "));
      if (++depth_ > 8) fail("a command within a command, and so on", line);
      ShellReader nested(script_, text, file_, line);
      nested.depth_ = depth_;
      nested.read();
      --depth_;
      return;
    }
    script_.commands_.push_back({words, line});
  }

  /// Up to one of these words, which is returned; empty at the end of the text.
  std::string statements(const Words& until, bool live) {
    if (nested_ >= deepest_in_shell) fail("a block within a block, and so on", line_);
    ++nested_;
    std::string end_word = statements_here(until, live);
    --nested_;
    return end_word;
  }
  std::string statements_here(const Words& until, bool live) {
    for (;;) {
      skip_blanks();
      if (end()) return "";
      const char c = peek();
      if (c == '\n') {
        end_line();
        continue;
      }
      if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
        next();
        continue;
      }
      const int line = line_;
      const Words words = command(live);
      if (words.empty()) continue;
      const std::string& first = words.front();
      const bool alone = words.size() == 1;
      if (alone && std::find(until.begin(), until.end(), first) != until.end()) return first;
      if (alone && first == "if")
        branches(live);
      else if (alone && (first == "for" || first == "while" || first == "until" || first == "case"))
        block(first, live);
      else if (alone && peek() == '(' && peek(1) == ')')
        function(first, live);
      else if (alone && is_keyword(first))
        continue;
      else if (live && !declares(first))
        run(words, line);
      else if (std::any_of(words.begin(), words.end(),
                           [](const auto& word) { return word.starts_with("--"); }))
        ++skipped_;
    }
  }
  /// NAME() { … }: left out, with all that it does.
  void function(const std::string& name, bool live) {
    at_ += 2;
    while (!end() && peek() != '{') next();
    if (!end()) next();
    const int from = line_, before = skipped_;
    block("{", false);
    if (live && skipped_ > before)
      script_.left_out_.push_back(
          fmt::format("line {}: the function {}, which is not followed", from, name));
  }

  ShellScript& script_;
  std::string_view text_;
  std::string file_;
  int line_;
  size_t at_ = 0;
  int depth_ = 0;    // of commands within commands
  int nested_ = 0;   // of blocks
  int skipped_ = 0;  // assignments and arguments in what is not followed
  Words documents_;  // delimiters of those that begin behind this line
};

ShellScript::ShellScript(const std::string& text, const std::string& file,
                         std::map<std::string, std::string> given)
    : variables_(std::move(given)) {
  ShellReader(*this, text, file, 1).read();
}

std::optional<std::string> ShellScript::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  if (!found || found->empty()) return std::nullopt;
  return found->front();
}

}  // namespace frugal::harness
