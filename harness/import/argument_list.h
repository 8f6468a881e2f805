#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// "--num-layers 96".
struct Argument {
  std::string name;  ///< "--num-layers"
  std::vector<std::string> values;

  std::string text() const;
};

/// The arguments of a program that trains, as a script or file has them.
struct ArgumentList {
  std::vector<Argument> all;          ///< each name once, with its last values
  std::string program;                ///< "pretrain_gpt.py"; empty where no command says it
  std::optional<int64_t> ranks;       ///< that its launcher starts
  std::string ranks_unknown;          ///< why the launcher's ranks are not known
  std::vector<std::string> left_out;  ///< what of the script was not followed, in words
  std::vector<std::string> asked;     ///< variables that conditions ask for, and that nothing sets
};

/// Variables, and the choice of a launch, for a text that has a list of arguments in it.
struct ListOptions {
  std::map<std::string, std::string> given;  ///< variables, which go before those of a script
  std::optional<int64_t> launch;             ///< which of a script's launches, from 1 on
};

/// Whether a text is a shell script, or a list with variables in it, which bash reads.
bool is_for_bash(const std::string& text);
/// Arguments that stand in a text: behind the program that a shell script starts, in the variables
/// of a script that starts none, or one after the other. A colon behind a name is left out, as YAML
/// has it. Throws InputError that names `file`.
ArgumentList arguments_in(const std::string& text, const std::string& file,
                          const ListOptions& options);
/// Arguments that stand in words. Throws InputError for a value that no argument stands before.
ArgumentList arguments_of(const std::vector<std::string>& words, const std::string& file);

}  // namespace frugal::harness
