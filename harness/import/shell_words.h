#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/import/shell.h"

namespace frugal::harness {

/// Reads the words of a shell script one after the other: quotes, variables, arrays, redirections.
class ShellWords {
 public:
  using Words = std::vector<std::string>;

  ShellWords(ShellVariables& variables, std::string_view text, std::string file, int line)
      : variables_(variables), text_(text), file_(std::move(file)), line_(line) {}

  [[noreturn]] void fail(const std::string& what, int line) const;
  bool end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char next();
  /// What has not been read.
  std::string_view rest() const { return text_.substr(at_); }
  int line() const { return line_; }
  void skip(size_t count) { at_ += count; }
  static bool ends_word(char c);

  /// Behind blanks, continued lines and a comment.
  void skip_blanks();
  /// One word, which an array or white space in a variable makes several; `whole`: one text.
  Words word(bool whole);
  /// Behind < or >, with what it leads to; a text up to a word of its own is left out.
  void redirection();
  void end_line();
  /// NAME=, NAME+= at this place; none otherwise.
  std::optional<std::pair<std::string, bool>> assignment();

 private:
  void comment();
  std::string quoted(char quote, int from);
  void backquoted();
  Words array_in_quotes();

  ShellVariables& variables_;
  std::string_view text_;
  std::string file_;
  int line_;
  size_t at_ = 0;
  Words documents_;  // delimiters of those that begin behind this line
};

}  // namespace frugal::harness
