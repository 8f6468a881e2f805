#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"
#include "harness/record/record.h"

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

/// Errors of predicted step times on published runs of a class, which bench/published.py counts
/// (docs/published.md). Shares of what was published.
struct Band {
  std::string machine, program;
  bool host_bound = false;     ///< less work a launch than a host takes to make it
  bool is_long = false;        ///< sequences of 8,192 tokens or more
  bool several_nodes = false;  ///< ranks on more than one
  int64_t count = 0;
  double median = 0, largest = 0;

  bool like(const Band& other) const;
  /// "predicted times of 29 published runs like it (…) were off by 41 % (median), 54 % at most"
  std::string text() const;
};

/// JSON, as bench/published.py writes it.
nlohmann::json to_json(const Band& band);

const std::vector<Band>& all_bands();
/// Bands of a machine, by label_of() it, and of runs like this, as far as a configuration says: the
/// host's and the device's. None where nothing like it was published.
std::vector<Band> find_bands(const std::string& machine, const RunConfig& run);
/// Band of a step that a machine of hardware/ has predicted.
std::optional<Band> find_band(const Record& record);

}  // namespace frugal::harness
