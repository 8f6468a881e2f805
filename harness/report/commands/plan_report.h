#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/execute.h"
#include "engine/plan/search.h"
#include "harness/calibrate/known_errors.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// "w 4, d 2, b 1, m 16, recompute none, schedule zb-v, shard optimizer": what a plan has chosen.
std::string configuration_name(const RunConfig& run);

/// A plan in words: what was asked, what came of it, and how to run the winner.
struct PlanReport {
  const PlanRequest& request;
  const Plan& plan;
  std::vector<Execution> executed;    ///< of the first of plan.fitting, or none
  std::optional<KnownErrors> errors;  ///< of the machine
  std::string command;                ///< that runs the winner
  size_t rows = 5;                    ///< of each table

  /// How good the predictions are, two tables, those that fit and faster ones that nearly do, what
  /// their columns mean, why the winner wins, and the command.
  std::string text() const;
  /// "frugal.plan/1"
  nlohmann::json json() const;
  /// Predicted seconds up to which a configuration cannot be told apart from the fastest: longer by
  /// what the ratio of two predictions was off in nine of ten pairs. 0 where that is not known.
  double undecided() const;
  /// How many of plan.fitting besides the first take no longer.
  size_t like_the_first() const;
  /// Errors of predicted times on published runs like the winner.
  std::vector<Band> bands() const;
  /// Lines that say what of the machine is calibrated, and how far its predictions were off.
  std::string confidence() const;
  /// Which term bounds the winner, and what keeps the next one from winning: one line.
  std::string why() const;
};

/// One line on a plan in which nothing fits: the closest, and by how much it misses.
std::string why_nothing_fits(const PlanRequest& request, const Plan& plan);

}  // namespace frugal::harness
