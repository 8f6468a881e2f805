#include "harness/import/shell_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using Words = ShellWords::Words;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void add(Words& fields, std::string& text, const Words& parts, bool& any) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      fields.push_back(std::move(text));
      text.clear();
    }
    text += parts[i];
    any = true;
  }
}

}  // namespace

void ShellWords::fail(const std::string& what, int line) const {
  throw InputError(fmt::format("{}, line {}: {}", file_, line, what));
}

char ShellWords::next() {
  if (peek() == '\n') ++line_;
  return text_[at_++];
}

bool ShellWords::ends_word(char c) {
  return blank(c) || std::string_view("\n;&|()<>").find(c) != std::string_view::npos;
}

void ShellWords::skip_blanks() {
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
void ShellWords::comment() {
  const size_t begin = at_;
  while (!end() && peek() != '\n') next();
  const std::string line(text_.substr(begin, at_ - begin));
  for (const auto& [option, name] : {std::pair{"#SBATCH --nodes=", "SLURM_NNODES"},
                                     {"#SBATCH --nodes=", "SLURM_JOB_NUM_NODES"},
                                     {"#SBATCH --gpus-per-node=", "SLURM_GPUS_PER_NODE"}})
    if (line.starts_with(option)) {
      const Words words =
          split_words(std::string_view(line).substr(std::string_view(option).size()));
      if (!words.empty()) variables_.environment(name, words.front());
    }
}

/// Behind an opening quote, to its end.
std::string ShellWords::quoted(char quote, int from) {
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
      text += fmt::format("{}", fmt::join(variables_.expand(text_, at_, true), " "));
    } else if (quote == '"' && c == '`') {
      backquoted();
      text += shell_output;
    } else {
      text += c;
    }
  }
}

void ShellWords::backquoted() {
  const int from = line_;
  while (!end() && peek() != '`') next();
  if (end()) fail("the quote ` does not end", from);
  next();
}

Words ShellWords::word(bool whole) {
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
      Words parts = variables_.expand(text_, at_, whole);
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
Words ShellWords::array_in_quotes() {
  const size_t close = text_.find('"', at_);
  const std::string_view inside =
      text_.substr(at_, close == std::string_view::npos ? 0 : close - at_);
  if (!inside.ends_with("[@]}") || inside.find('}') + 1 != inside.size()) return {};
  size_t behind = at_ + 1;
  Words elements = variables_.expand(text_, behind, false);
  at_ = close + 1;
  return elements;
}

void ShellWords::redirection() {
  const bool document = text_.substr(at_).starts_with("<<") && peek(2) != '<';
  while (peek() == '<' || peek() == '>' || peek() == '&') next();
  if (document && peek() == '-') next();
  skip_blanks();
  const Words to = word(true);
  if (document && !to.empty()) documents_.push_back(to.front());
}

void ShellWords::end_line() {
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

std::optional<std::pair<std::string, bool>> ShellWords::assignment() {
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

}  // namespace frugal::harness
