#pragma once
#include <optional>
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// How far predicted times of whole steps were off on a machine: "predictions" of its file
/// (docs/calibration.md), which bench/prediction_errors.py counts. Shares of what was predicted.
struct KnownErrors {
  struct Steps {
    int64_t count = 0;
    double median = 0, largest = 0;
  } steps;
  /// Errors of the predicted ratio between two configurations of one model and batch.
  struct Pairs {
    int64_t count = 0;
    double median = 0;
    double nine_in_ten = 0;  ///< that so many do not exceed
  } pairs;
  std::string differ_in;  ///< what tells the configurations of these pairs apart
  std::string source;
};

/// Reads a machine's file, as find_machine() finds it; none where it has no "predictions". Throws
/// InputError that names the file, the key and what is allowed.
std::optional<KnownErrors> find_known_errors(const std::string& name_or_path);

}  // namespace frugal::harness
