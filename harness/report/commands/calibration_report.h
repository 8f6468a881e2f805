#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/calibrate/published.h"
#include "harness/calibrate/sensitivity.h"

namespace frugal::harness {

/// What `frugal calibrate` found, in words (docs/calibration.md).
struct CalibrationReport {
  std::string machine, description;
  Refit refit;
  std::optional<std::vector<HeldOut>> held_out;  ///< where it was asked for
  std::optional<Sensitivity> sensitivity;        ///< where it was asked for
  std::optional<Published> published;            ///< where it was asked for
  std::vector<std::string> violations;           ///< of the split
  std::string command;

  /// Whether the file's values are what fitting gives, and nothing held out was fitted to.
  bool holds() const { return !refit.differs() && violations.empty(); }

  std::string text() const;
  /// "frugal.calibration/1"
  nlohmann::json json() const;
};

}  // namespace frugal::harness
