#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "harness/import/shell.h"

namespace frugal::harness {
namespace {

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Where what opens at `at` closes; the end of the text where it does not.
size_t closing(std::string_view text, size_t at, char open, char close) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i;
  }
  return text.size();
}

/// Whole numbers with + − * / % and parentheses; names are variables.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, ShellVariables& variables)
      : text_(text), variables_(variables) {}

  std::optional<int64_t> value() {
    const int64_t result = sum();
    skip();
    return known_ && at_ == text_.size() ? std::optional(result) : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void exact(bool is) { known_ = known_ && is; }
  int64_t sum() {
    int64_t result = product();
    for (;;) {
      if (take('+'))
        exact(!__builtin_add_overflow(result, product(), &result));
      else if (take('-'))
        exact(!__builtin_sub_overflow(result, product(), &result));
      else
        return result;
    }
  }
  int64_t product() {
    int64_t result = factor();
    for (;;) {
      const bool times = take('*');
      const char sign = times ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') return result;
      const int64_t other = factor();
      if (sign == '*') {
        exact(!__builtin_mul_overflow(result, other, &result));
        continue;
      }
      exact(other > 0);
      if (other > 0) result = sign == '/' ? result / other : result % other;
    }
  }
  int64_t factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    const int64_t value = unsigned_factor();
    return negative ? -value : value;
  }
  int64_t unsigned_factor() {
    if (take('(')) {
      exact(++depth_ < deepest_in_shell);
      const int64_t inside = known_ ? sum() : 0;
      --depth_;
      exact(take(')'));
      return inside;
    }
    skip();
    if (at_ < text_.size() && text_[at_] == '$') {
      ++at_;
      return number(fmt::format("{}", fmt::join(variables_.expand(text_, at_, true), " ")));
    }
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty() || std::isdigit(static_cast<unsigned char>(word.front())) != 0)
      return number(word);
    const auto found = variables_.find(word);
    return number(found ? fmt::format("{}", fmt::join(*found, " ")) : "");
  }
  int64_t number(const std::string& text) {
    const bool digits =
        !text.empty() && text.size() < 18 &&
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    exact(digits);
    return digits ? std::stoll(text) : 0;
  }

  std::string_view text_;
  ShellVariables& variables_;
  size_t at_ = 0;
  int depth_ = 0;
  bool known_ = true;
};

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
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

bool is_open(std::string_view text) {
  return text.find("${") != std::string_view::npos ||
         text.find(shell_output) != std::string_view::npos;
}

void ShellVariables::assign(const std::string& name, const std::vector<std::string>& values,
                            bool append) {
  std::vector<std::string>& all = assigned_[name];
  if (std::find(order_.begin(), order_.end(), name) == order_.end()) order_.push_back(name);
  used_.erase(name);
  if (!append) {
    all = values;
  } else if (values.size() == 1 && all.size() == 1) {
    all.front() += values.front();
  } else {
    all.insert(all.end(), values.begin(), values.end());
  }
}

void ShellVariables::environment(const std::string& name, const std::string& value) {
  assigned_.try_emplace(name, std::vector{value});
}

std::optional<std::vector<std::string>> ShellVariables::find(const std::string& name) const {
  if (const auto found = given_.find(name); found != given_.end())
    return std::vector{found->second};
  if (const auto found = assigned_.find(name); found != assigned_.end()) return found->second;
  return std::nullopt;
}

std::optional<int64_t> ShellVariables::arithmetic(std::string_view expression) {
  return Arithmetic(expression, *this).value();
}

std::vector<std::string> ShellVariables::named(const std::string& name, bool whole) {
  used_.insert(name);
  const auto found = find(name);
  if (!found) return {unset_is_empty_ ? "" : "${" + name + "}"};
  if (whole || found->size() < 2) return {fmt::format("{}", fmt::join(*found, " "))};
  return *found;
}

std::vector<std::string> ShellVariables::braces(std::string_view inside, bool whole) {
  size_t end = 0;
  while (end < inside.size() && is_name_character(inside[end])) ++end;
  const std::string name(inside.substr(0, end));
  std::string_view rest = inside.substr(end);
  bool all = false;
  for (const std::string_view every : {"[@]", "[*]"})
    if (rest.starts_with(every)) {
      rest.remove_prefix(every.size());
      all = true;
    }
  if (rest.empty() && !name.empty()) return named(name, whole || !all);
  const bool or_empty = rest.starts_with(":");
  if (or_empty) rest.remove_prefix(1);
  if (name.empty() || !(rest.starts_with("-") || rest.starts_with("=")))
    return {std::string(shell_output)};  // what else stands in braces changes the text
  used_.insert(name);
  const auto found = find(name);
  const bool empty = found && (found->empty() || (found->size() == 1 && found->front().empty()));
  if (found && !(or_empty && empty)) return named(name, whole || !all);
  if (depth_ >= deepest_in_shell) return {std::string(shell_output)};
  ++depth_;
  std::string otherwise;
  for (size_t at = 1; at < rest.size();) {
    const char c = rest[at++];
    if (c == '$')
      otherwise += fmt::format("{}", fmt::join(expand(rest, at, true), " "));
    else if (c != '"' && c != '\'')
      otherwise += c;
  }
  --depth_;
  return {otherwise};
}

std::vector<std::string> ShellVariables::expand(std::string_view text, size_t& at, bool whole) {
  if (text.substr(at).starts_with("((")) {
    const size_t end = closing(text, at, '(', ')');
    const std::string_view inside = text.substr(at + 2, end - at - 3);
    at = std::min(end + 1, text.size());
    const auto value = arithmetic(inside);
    return {value ? std::to_string(*value) : std::string(shell_output)};
  }
  const char open = at < text.size() ? text[at] : ' ';
  if (open == '(' || open == '{') {
    const size_t end = closing(text, at, open, open == '(' ? ')' : '}');
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    at = std::min(end + 1, text.size());
    if (open == '(') return {std::string(shell_output)};
    return braces(inside, whole);
  }
  const size_t begin = at;
  while (at < text.size() && is_name_character(text[at]) &&
         (at == begin || std::isdigit(static_cast<unsigned char>(text[begin])) == 0))
    ++at;
  if (at == begin && at < text.size() &&
      std::string_view("@*#?$!-").find(open) != std::string_view::npos)
    ++at;
  if (at == begin) return {"$"};
  return named(std::string(text.substr(begin, at - begin)), true);
}

std::vector<std::string> ShellVariables::unused() const {
  std::vector<std::string> texts;
  for (const std::string& name : order_)
    if (used_.count(name) == 0)
      if (const auto values = find(name)) texts.insert(texts.end(), values->begin(), values->end());
  return texts;
}

}  // namespace frugal::harness
