#include "harness/import/shell_condition.h"

#include <algorithm>
#include <charconv>

#include "harness/import/shell.h"

namespace frugal::harness {
namespace {

using Words = std::vector<std::string>;

std::optional<int64_t> whole(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::optional<bool> compared(const std::string& a, const std::string& sign, const std::string& b) {
  if (sign == "=" || sign == "==") return a == b;
  if (sign == "!=") return a != b;
  const auto left = whole(a), right = whole(b);
  if (!left || !right) return std::nullopt;
  if (sign == "-eq") return *left == *right;
  if (sign == "-ne") return *left != *right;
  if (sign == "-lt" || sign == "<") return *left < *right;
  if (sign == "-le") return *left <= *right;
  if (sign == "-gt" || sign == ">") return *left > *right;
  if (sign == "-ge") return *left >= *right;
  return std::nullopt;
}

/// Without && and ||.
std::optional<bool> primary(const Words& all) {
  Words words;
  for (const std::string& word : all)
    if (word != "[" && word != "]" && word != "[[" && word != "]]" && word != "test")
      words.push_back(word);
  if (words.size() == all.size()) return std::nullopt;  // a command, whose end decides
  if (std::any_of(words.begin(), words.end(), [](const auto& word) { return is_open(word); }))
    return std::nullopt;
  bool negated = false;
  while (!words.empty() && words.front() == "!") {
    negated = !negated;
    words.erase(words.begin());
  }
  std::optional<bool> result;
  if (words.size() == 1) result = !words[0].empty();
  if (words.size() == 2 && words[0] == "-z") result = words[1].empty();
  if (words.size() == 2 && words[0] == "-n") result = !words[1].empty();
  if (words.size() == 3) result = compared(words[0], words[1], words[2]);
  if (result && negated) return !*result;
  return result;
}

}  // namespace

std::optional<bool> shell_condition(const Words& words) {
  std::optional<bool> result;
  std::string sign;
  Words part;
  const auto join = [&] {
    const std::optional<bool> next = primary(part);
    if (sign.empty())
      result = next;
    else if (sign == "&&")
      result = result == false || next == false ? std::optional(false)
               : result && next                 ? std::optional(true)
                                                : std::nullopt;
    else
      result = result == true || next == true ? std::optional(true)
               : result && next               ? std::optional(false)
                                              : std::nullopt;
    part.clear();
  };
  for (const std::string& word : words) {
    if (word != "&&" && word != "||") {
      part.push_back(word);
      continue;
    }
    join();
    sign = word;
  }
  join();
  return result;
}

}  // namespace frugal::harness
