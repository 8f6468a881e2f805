#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace frugal::harness {

/// Values by name: "device", "recompute", "model.layers", "threads", "processor.governor".
using Conditions = std::map<std::string, std::string>;

/// All that decides what a case gives, but for the program that runs it: where it runs, on what
/// machine in what state, which configuration, and the options of the run. How many rounds were
/// timed is not among them.
Conditions conditions_of(const Record& record);

/// The program: its build and the libraries with which it was linked. It is what a comparison is
/// about where nothing else is said, so it may differ.
Conditions program_of(const Record& record);

struct Difference {
  std::string name, base, candidate;
  bool operator==(const Difference&) const = default;
};

/// Where they differ, by name; what one of them lacks is "none" there.
std::vector<Difference> differences(const Conditions& base, const Conditions& candidate);

/// Conditions that a comparison is about, and that may differ: names, or what stands before a dot
/// ("model" is all of the model's).
class Across {
 public:
  Across() = default;
  /// Throws InputError for a name that none of these records has, with the nearest there are, and
  /// for `source`: numbers of a clock and of a machine model are never compared.
  Across(std::vector<std::string> names, const std::vector<Record>& base,
         const std::vector<Record>& candidate);

  bool has(const std::string& condition) const;
  const std::vector<std::string>& names() const { return names_; }
  /// Conditions that may not differ, and do.
  std::vector<Difference> forbidden(const Conditions& base, const Conditions& candidate) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace frugal::harness
