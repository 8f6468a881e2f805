#pragma once
#include <string>

#include "harness/cli/flags.h"

namespace frugal::harness {

/// The described machine that a command is about: --hardware MACHINE, or --on virtual:MACHINE.
class MachineFlags {
 public:
  void add_to(Flags& flags, const std::string& help);
  /// A name or a file. Throws InputError where there is none, or where the two name different ones.
  std::string name() const;

 private:
  std::string on_, hardware_;
};

/// Place where a command runs, as a value of --on: --hardware MACHINE stands for virtual:MACHINE.
/// Empty where neither flag is given.
std::string place_named(const std::string& on, const std::string& hardware);

}  // namespace frugal::harness
