#pragma once
#include "kernels/support/json_file.h"
#include "kernels/virtual/machine.h"

namespace frugal::kernels {

/// Parts of a machine's file that have no numbers of it. Both throw InputError.
Machine::Software read_software(const JsonObject& software);
/// All of it, such as "bias gelu blocking sharded": the same for equal ones only.
std::string in_words(const Machine::Software& software);

}  // namespace frugal::kernels
