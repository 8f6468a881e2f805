#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/program.h"
#include "harness/namespace.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// Which parameters of a machine were fitted, to what, and what they must not be fitted to: "fit"
/// of its file (docs/calibration.md).
struct Fit {
  /// Numbers of a paper: of a table or figure all, or those of a row, or one.
  struct Cells {
    std::string artifact, row, column;

    /// Whether it has some of what is asked for; without row and column any number of the artifact.
    bool include(std::string_view artifact, std::string_view row, std::string_view column) const;
  };
  Program program;  ///< whose cases they were fitted with: the fit is of no other
  std::vector<std::string> parameters;
  std::vector<Cells> to;
  std::vector<std::string> held_out;  ///< artifacts

  /// Whether parameters were fitted to some of these numbers.
  bool is_to(std::string_view artifact, std::string_view row = {},
             std::string_view column = {}) const;
};

/// A machine, and what was fitted of it.
struct MachineWithFit : Machine {
  Fit fit;
};

/// Fit of a machine's file, as find_machine() finds it; empty where it says nothing. Throws
/// InputError that names the file, the key and what is allowed.
Fit find_fit(const std::string& name_or_path);

}  // namespace frugal::harness
