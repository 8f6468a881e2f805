#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// One checkpoint, to go on from: what its manifest says.
struct TrainingCheckpoint {
  /// A rank's, or that of several that have the same.
  struct File {
    std::string name;  ///< in the folder
    int64_t bytes = 0;
    std::string hash;
  };

  std::string folder;  ///< "DIR/step-00000120"
  int64_t step = 0;
  nlohmann::json identity;  ///< what has to be as it was for the losses to be those of one training
  std::vector<File> files;
  std::vector<double> losses, gradient_norms;
  std::vector<std::pair<int64_t, double>> held_out;
};
inline constexpr const char* manifest_name = "manifest.json";

nlohmann::json to_json(const TrainingCheckpoint& checkpoint);
/// What manifest.json of the folder says; it may say more. Throws InputError where it is none.
TrainingCheckpoint read_manifest(const std::string& folder);

}  // namespace frugal::harness
