#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// A program that a script would start, with its arguments. Lines count from 1.
struct ShellCommand {
  std::vector<std::string> words;
  int line = 0;
};

/// Placeholder for the output of a program that is not run.
inline constexpr std::string_view shell_output = "$(...)";
/// Whether a text has a variable in it that is not set, "${NAME}", or a program's output.
bool is_open(std::string_view text);
/// The variables in it that are not set.
std::vector<std::string> open_names(std::string_view text);
/// Texts that white space separates.
std::vector<std::string> split_words(std::string_view text);

/// A shell script, followed by bash in a world without programs and files (sealed_bash.h): what it
/// would start is noted down. A name that is not set stays where it stands, as "${NAME}".
class ShellScript {
 public:
  /// How a condition ends that the machine would decide: by its files, or what a program prints.
  enum class Untold { as_without_files, as_true };

  /// `given` go before what the script assigns; a number is one of the script's arguments. Throws
  /// InputError that names `file` for what is no shell script, or does not end, or does too much.
  ShellScript(std::string text, const std::string& file,
              const std::map<std::string, std::string>& given,
              Untold untold = Untold::as_without_files);

  const std::vector<ShellCommand>& commands() const { return commands_; }
  /// Variables that the script assigns, as they are at its end, in the order of its text.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& variables() const {
    return variables_;
  }
  /// Value that the script assigns, or Slurm would set, or that is given; empty where nothing is.
  std::string variable(const std::string& name) const;
  /// Parts of the script that were not followed, in words.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Conditions that the machine would decide, in words.
  const std::vector<std::string>& untold() const { return untold_; }
  /// Names that conditions ask for, and that nothing sets.
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  void check(const std::string& text, const std::string& file) const;
  void read_records(const std::string& written, int first_line);
  void read_messages(const std::string& messages, const std::string& file, int first_line);

  std::map<std::string, std::string> environment_;
  std::vector<ShellCommand> commands_;
  std::vector<std::pair<std::string, std::vector<std::string>>> variables_;
  std::vector<std::string> left_out_, untold_, asked_;
};

}  // namespace frugal::harness
