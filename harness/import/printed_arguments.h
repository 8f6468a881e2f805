#pragma once
#include <optional>
#include <string>

#include "harness/import/argument_list.h"

namespace frugal::harness {

/// The arguments of a list as Megatron-LM prints it when a training begins, lines "name .... value"
/// between its two headings; none where the text has no such heading. What is None, or a switch
/// that is off, is left out: its argument was not given. Throws InputError that names `file`.
std::optional<ArgumentList> printed_arguments(const std::string& text, const std::string& file);

}  // namespace frugal::harness
