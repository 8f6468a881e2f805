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
  std::vector<std::string> left_out;  ///< what of the script was not followed, in words
};

/// Arguments that stand in a text: behind the program of a shell script's command, in the variables
/// of a script that has none, or one after the other. `given` go before the script's own variables.
/// A colon behind a name is left out, as YAML has it. Throws InputError that names `file`.
ArgumentList arguments_in(const std::string& text, const std::string& file,
                          const std::map<std::string, std::string>& given);
/// Those that stand in these words. Throws InputError for a value that no argument stands before.
ArgumentList arguments_of(const std::vector<std::string>& words, const std::string& file);

}  // namespace frugal::harness
