#pragma once
#include <string>

#include "harness/namespace.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// Whether a machine's numbers are what `frugal peak --machine` measured, and no data sheet's.
bool was_measured(const Machine& machine);

/// hash_of() its values only: another source or description of the same number changes no result.
std::string hash_of_values(const Machine& machine);

/// What it is, and how good its numbers are.
std::string in_words(const Machine& machine);

/// A machine file (hardware/) with these values.
std::string file_of(const Machine& machine);

/// Whether it is a machine of hardware/, with the values of this program.
bool is_known(const Machine& machine);

/// "NAME" of a machine of hardware/, "NAME#HASH" of any other: HASH is the first 8 digits of
/// hash_of_values(). A file may bear a name that is known, or that another file bears: only the
/// program's own machines go by their name alone.
std::string label_of(const Machine& machine);

}  // namespace frugal::harness
