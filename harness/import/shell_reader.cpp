#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "harness/import/shell.h"
#include "harness/import/shell_condition.h"
#include "harness/import/shell_words.h"
#include "kernels/support/error.h"

namespace frugal::harness {

/// Reads a script from its beginning to its end. What stands in a branch that is not taken is read
/// like the rest, but does nothing (`live`).
class ShellReader : ShellWords {
 public:
  ShellReader(ShellScript& script, std::string_view text, std::string file, int line)
      : ShellWords(script.variables_, text, file, line), script_(script), file_(std::move(file)) {}

  void read() { (void)statements({}, true); }

 private:
  void assign(const std::pair<std::string, bool>& to, bool live) {
    Words values;
    if (peek() == '(') {
      const int from = line();
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
    else if (not_run_)
      script_.variables_.leave_empty(to.first);
    ++(live ? followed_ : skipped_);
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
      const bool number = more.size() == 1 && !more.front().empty() &&
                          (peek() == '<' || peek() == '>') &&
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

  /// Whether a test begins here: `[ ... ]`, `[[ ... ]]` or `test ...`.
  bool at_test() const {
    const std::string_view rest = this->rest();
    return rest.starts_with("[ ") || rest.starts_with("[[ ") || rest.starts_with("! [") ||
           rest.starts_with("test ");
  }
  /// Whether it holds; none where the text does not tell.
  std::optional<bool> test() {
    script_.variables_.unset_is_empty(true);
    const bool brackets = rest().substr(0, 4).find("[[") != std::string_view::npos;
    Words words;
    while (words.empty() || !words.back().starts_with("]")) {
      skip_blanks();
      const char c = peek();
      if (end() || (ends_word(c) && !brackets)) break;
      if (ends_word(c)) {
        const bool both = (c == '&' || c == '|') && peek(1) == c;
        if (both || c == '<' || c == '>') words.push_back(std::string(both ? 2 : 1, c));
        for (int i = 0; i < (both ? 2 : 1); ++i) next();
      } else {
        const Words one = word(true);
        words.push_back(one.empty() ? "" : one.front());
      }
    }
    script_.variables_.unset_is_empty(false);
    return shell_condition(words);
  }
  void cannot_be_told(int line) {
    script_.left_out_.push_back(fmt::format(
        "line {}: whether its condition holds cannot be told from the text; taken as false", line));
  }

  /// Between `if` and `then`.
  std::optional<bool> condition() {
    script_.variables_.unset_is_empty(true);
    Words words;
    for (;;) {
      skip_blanks();
      if (end()) fail("an if has no then", line());
      const char c = peek();
      if ((c == '&' || c == '|') && peek(1) == c) {
        words.push_back(std::string(2, c));
        skip(2);
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
    const int from = line();
    bool open = live;  // no branch has been taken
    std::string ended = "if";
    do {
      std::optional<bool> taken = true;
      const int begins = line();
      if (ended != "else") taken = condition();
      const int before = skipped_;
      const bool left_out = live && !(open && taken == true);
      ended = not_run(left_out, [&] {
        return statements({"elif", "else", "fi"}, open && taken == true);
      });
      if (ended.empty()) fail("an if has no fi", from);
      if (open && !taken && skipped_ > before) cannot_be_told(begins);
      if (taken == true) open = false;
    } while (ended != "fi");
  }
  void block(const std::string& opened, bool live) {
    const int from = line();
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
    if (nested_ >= deepest_in_shell) fail("a block within a block, and so on", line());
    ++nested_;
    std::string end_word = statements_here(until, live);
    --nested_;
    return end_word;
  }
  /// Reads something. If it is not run, what it would assign is empty.
  std::string not_run(bool so, const std::function<std::string()>& read) {
    const bool before = not_run_;
    not_run_ = before || so;
    std::string end_word = read();
    not_run_ = before;
    return end_word;
  }
  /// Commands with && and || between them.
  struct Chain {
    std::string sign = {};  ///< before the next command; empty before the first
    bool held = true;       ///< whether the last that ran ended well
    bool is_known = true;   ///< or whether it is taken to have failed

    bool goes_on() const { return sign.empty() || held == (sign == "&&"); }
    /// The next command has ended, if it ran.
    void ended(std::optional<bool> well) {
      if (goes_on()) {
        held = well.value_or(false);
        is_known = well.has_value();
      }
      sign.clear();
    }
  };
  std::string statements_here(const Words& until, bool live) {
    Chain chain;
    for (;;) {
      skip_blanks();
      if (end()) return "";
      const char c = peek();
      if ((c == '&' || c == '|') && peek(1) == c) {
        chain.sign = std::string(2, c);
        skip(2);
      } else if (c == '\n' && !chain.sign.empty()) {
        next();
      } else if (c == ')' && until == Words{")"}) {
        next();
        return ")";
      } else if (c == '\n' || c == ';' || c == '&' || c == '|' || c == ')') {
        chain = {};
        c == '\n' ? end_line() : void(next());
      } else if (at_test()) {
        chain.ended(test());
      } else {
        std::string end_word = link(chain, until, live);
        if (!end_word.empty()) return end_word;
      }
    }
  }
  /// A command of a chain. One that is no test ends well, as far as the text tells.
  std::string link(Chain& chain, const Words& until, bool live) {
    const int begins = line(), before = skipped_ + followed_;
    const bool runs = live && chain.goes_on();
    const bool left_out = live && !runs;
    std::string end_word = not_run(left_out, [&]() -> std::string {
      if (peek() != '(') return statement(until, runs, begins);
      next();
      (void)statements({")"}, runs);
      return "";
    });
    if (live && !chain.sign.empty() && !chain.is_known && skipped_ + followed_ > before)
      cannot_be_told(begins);
    chain.ended(true);
    return end_word;
  }
  /// A command, or a block with all that is in it; returns the word that ends what is around it.
  std::string statement(const Words& until, bool live, int line) {
    const Words words = command(live);
    if (words.empty()) return "";
    const std::string& first = words.front();
    const bool alone = words.size() == 1;
    if (alone && std::find(until.begin(), until.end(), first) != until.end()) return first;
    if (alone && first == "if")
      branches(live);
    else if (alone && (first == "for" || first == "while" || first == "until" || first == "case" ||
                       first == "{"))
      block(first, live);
    else if (alone && peek() == '(' && peek(1) == ')')
      function(first, live);
    else if (alone && is_keyword(first))
      return "";
    else if (live && !declares(first))
      run(words, line);
    else if (std::any_of(words.begin(), words.end(),
                         [](const auto& word) { return word.starts_with("--"); }))
      ++skipped_;
    return "";
  }
  /// NAME() { … }: left out, with all that it does.
  void function(const std::string& name, bool live) {
    skip(2);
    while (!end() && peek() != '{') next();
    if (!end()) next();
    const int from = line(), before = skipped_;
    block("{", false);
    if (live && skipped_ > before)
      script_.left_out_.push_back(
          fmt::format("line {}: the function {}, which is not followed", from, name));
  }

  ShellScript& script_;
  std::string file_;
  int depth_ = 0;   // of commands within commands
  int nested_ = 0;  // of blocks
  bool not_run_ = false;
  int skipped_ = 0;   // assignments and arguments in what is not followed
  int followed_ = 0;  // assignments that were made
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
