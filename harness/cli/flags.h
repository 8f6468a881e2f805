#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/settings/value_type.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

namespace frugal::harness {

/// Adds flags to a command. Each knows its default and what is allowed, checks its value, and
/// throws an InputError of one line. Help, completion and docs/cli.md are made from them.
class Flags {
 public:
  explicit Flags(CLI::App& command) : command_(command) {}

  /// The command's name.
  std::string command() const;
  void toggle(const std::string& name, bool& target, const std::string& help);
  void toggle(const std::string& name, const std::function<void()>& set, const std::string& help);
  /// A text that `set` reads; `type` is for the help, and so is what holds `otherwise`.
  void value(const std::string& name, const ValueType& type, const std::string& otherwise,
             const std::string& help, const std::function<void(const std::string&)>& set);
  /// `value` stands for the text in the help: "FILE".
  void text(const std::string& name, std::string& target, const std::string& value,
            const std::string& help);
  /// The same, as often as it is given.
  void texts(const std::string& name, std::vector<std::string>& target, const std::string& value,
             const std::string& help);
  void choice(const std::string& name, std::string& target, const std::vector<std::string>& allowed,
              const std::string& help);
  /// Several values of a type, which commas separate.
  void list(const std::string& name, const ValueType& type, std::vector<std::string>& target,
            const std::string& help);
  /// --format of a command that prints a table: table, json, csv or markdown.
  void format(std::string& target, const std::string& help) {
    choice("--format", target, {"table", "json", "csv", "markdown"}, help);
  }
  /// A whole number in [low, high]. A default below `low` stands for "not given".
  template <class T>
  void integer(const std::string& name, T& target, int64_t low, const std::string& help,
               int64_t high = std::numeric_limits<T>::max()) {
    whole(
        name, [&target](int64_t value) { target = static_cast<T>(value); },
        target < static_cast<T>(low) ? "" : std::to_string(target), low, high, help);
  }
  template <class T>
  void integer(const std::string& name, std::optional<T>& target, int64_t low,
               const std::string& help, int64_t high = std::numeric_limits<T>::max()) {
    whole(
        name, [&target](int64_t value) { target = static_cast<T>(value); }, "", low, high, help);
  }
  /// A number in [low, high).
  void number(const std::string& name, double& target, double low, double high,
              const std::string& help);
  void number(const std::string& name, std::optional<double>& target, double low, double high,
              const std::string& help);
  /// A number of bytes with its unit: byte_count().
  void bytes(const std::string& name, std::optional<int64_t>& target, const std::string& help);
  /// 1 or 1/k.
  void scale(const std::string& name, int64_t& target, const std::string& help);
  /// What stands without a flag.
  void positional(const std::string& name, std::vector<std::string>& target,
                  const std::string& help, bool required);
  /// One of them, required.
  void positional(const std::string& name, std::string& target, const std::string& help);

 private:
  void whole(const std::string& name, const std::function<void(int64_t)>& set,
             const std::string& otherwise, int64_t low, int64_t high, const std::string& help);
  void real(const std::string& name, const std::function<void(double)>& set,
            const std::string& otherwise, double low, double high, const std::string& help);

  CLI::App& command_;
};

}  // namespace frugal::harness
