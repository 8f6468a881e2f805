#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// A command as a shell would run it, its variables replaced. Lines count from 1.
struct ShellCommand {
  std::vector<std::string> words;
  int line = 0;
};

/// The variables of a shell script. A name that is not set stays where it stands, as "${NAME}", and
/// what a command would print as "$(...)": is_open() finds them.
class ShellVariables {
 public:
  /// `given` go before what the script assigns.
  explicit ShellVariables(std::map<std::string, std::string> given) : given_(std::move(given)) {}

  void assign(const std::string& name, const std::vector<std::string>& values, bool append);
  /// A name that would be assigned in what is not run: it is empty, unless it is set elsewhere.
  void leave_empty(const std::string& name) { assigned_.try_emplace(name); }
  /// As the environment has it: what the script assigns goes before.
  void environment(const std::string& name, const std::string& value);
  /// One text for each element; none where it is not set.
  std::optional<std::vector<std::string>> find(const std::string& name) const;
  /// What is behind a dollar: "NAME", "{NAME:-otherwise}", "((1 + 2))", "(command)". `at` is set
  /// behind it. `whole` says whether all elements of an array become one text.
  std::vector<std::string> expand(std::string_view text, size_t& at, bool whole);
  /// The whole number that an arithmetic expression is; none where a name in it has none.
  std::optional<int64_t> arithmetic(std::string_view expression);
  /// While conditions are read a name that is not set is an empty text, as it is for a shell.
  void unset_is_empty(bool on) { unset_is_empty_ = on; }
  /// Texts that were assigned and that nothing has used, in the order of their first assignment.
  std::vector<std::string> unused() const;

 private:
  std::vector<std::string> braces(std::string_view inside, bool whole);
  std::vector<std::string> named(const std::string& name, bool whole);

  std::map<std::string, std::string> given_;
  std::map<std::string, std::vector<std::string>> assigned_;
  std::vector<std::string> order_;
  std::set<std::string> used_;
  bool unset_is_empty_ = false;
  int depth_ = 0;  ///< of braces within braces
};

/// What stands deeper within itself is not read.
inline constexpr int deepest_in_shell = 64;

inline constexpr std::string_view shell_output = "$(...)";
/// Whether a text has a variable in it that is not set, or a command's output.
bool is_open(std::string_view text);

/// A shell script, read without running anything: assignments, arrays, arithmetic and conditions
/// on texts and numbers are followed; loops, functions and what a command would print are not.
class ShellScript {
 public:
  /// Throws InputError that names `file` and line for a quote or block that does not end.
  ShellScript(const std::string& text, const std::string& file,
              std::map<std::string, std::string> given);

  const std::vector<ShellCommand>& commands() const { return commands_; }
  std::vector<std::string> unused() const { return variables_.unused(); }
  std::optional<std::string> variable(const std::string& name) const;
  /// What was not followed, in words.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  friend class ShellReader;
  ShellVariables variables_;
  std::vector<ShellCommand> commands_;
  std::vector<std::string> left_out_;
};

/// Texts that white space separates.
std::vector<std::string> split_words(std::string_view text);

}  // namespace frugal::harness
