#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/paper.h"
#include "experiments/policy.h"

namespace frugal::experiments {

/// Applies the policy to the cells of a paper's artifact.
class Judge {
 public:
  Judge(const Paper& paper, const std::string& artifact);

  /// Of a cell that has something of the paper's. `peers` are the cells of the same source and
  /// size.
  void operator()(Cell& cell, const std::vector<Cell>& peers,
                  const std::optional<policy::Tolerance>& stated) const;

 private:
  /// The number of the cell that a rule names; none where there is none, or where the paper's
  /// precision does not tell it from this one.
  std::optional<double> beside(const Cell& cell, const std::vector<Cell>& peers,
                               const NoEffectRule& rule) const;
  /// None where paper.json says nothing of a number that is no ratio.
  std::optional<policy::NoEffect> no_effect(const Cell& cell, const std::vector<Cell>& peers) const;
  double uncertainty(const Cell& cell) const;

  const Paper& paper_;
  std::string artifact_, numbers_;
  std::vector<NoEffectRule> rules_;
};

}  // namespace frugal::experiments
