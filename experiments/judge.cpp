#include "experiments/judge.h"

#include <algorithm>
#include <cmath>

namespace frugal::experiments {
namespace {

const std::string& first(const std::string& name, const std::string& otherwise) {
  return name.empty() ? otherwise : name;
}

}  // namespace

Judge::Judge(const Paper& paper, const std::string& artifact)
    : paper_(paper),
      artifact_(artifact),
      numbers_(paper.numbers(artifact)),
      rules_(paper.no_effect(artifact)) {}

double Judge::uncertainty(const Cell& cell) const {
  const PaperCell* theirs = paper_.find_cell(artifact_, cell.row, cell.column);
  return theirs == nullptr ? 0 : theirs->uncertainty;
}

std::optional<double> Judge::beside(const Cell& cell, const std::vector<Cell>& peers,
                                    const NoEffectRule& rule) const {
  const std::string &artifact = first(rule.artifact, artifact_),
                    &row = first(rule.other_row, cell.row),
                    &column = first(rule.other_column, cell.column);
  std::optional<double> other;
  double known = uncertainty(cell);
  if (const PaperCell* theirs = paper_.find_cell(artifact, row, column)) {
    if (!theirs->oom) other = theirs->value;
    known += theirs->uncertainty;
  } else {
    const auto peer = std::ranges::find_if(
        peers, [&](const Cell& c) { return c.row == row && c.column == column; });
    if (peer != peers.end()) other = peer->reference();
  }
  constexpr double rounding = 1e-9;
  if (other && std::abs(*other - *cell.reference()) <= known + rounding) other.reset();
  return other;
}

std::optional<policy::NoEffect> Judge::no_effect(const Cell& cell,
                                                 const std::vector<Cell>& peers) const {
  const auto rule = std::ranges::find_if(rules_, [&](const NoEffectRule& r) {
    return (r.row.empty() || r.row == cell.row) && (r.column.empty() || r.column == cell.column);
  });
  const bool ratio = cell.unit == "x";
  const policy::NoEffect alone{ratio ? 1.0 : 0.0, false, !ratio};
  if (rule == rules_.end()) return ratio ? std::optional(alone) : std::nullopt;
  const bool of_all_others = rule->row.empty() && rule->column.empty();
  if (rule->value) return policy::NoEffect{*rule->value, false, of_all_others && *rule->value == 0};
  if (const auto other = beside(cell, peers, *rule)) return policy::NoEffect{*other, true};
  return alone;
}

void Judge::operator()(Cell& cell, const std::vector<Cell>& peers,
                       const std::optional<policy::Tolerance>& stated) const {
  if (!cell.reference()) {  // the paper's memory ran out
    cell.tolerance = 0;
    cell.justification = "memory runs out or does not";
    return;
  }
  const std::optional<policy::NoEffect> without = no_effect(cell, peers);
  policy::judge(cell,
                {.made = policy::made(cell.unit, numbers_),
                 .value = *cell.reference(),
                 .unit = cell.unit,
                 .uncertainty = uncertainty(cell),
                 .no_effect = without.value_or(policy::NoEffect{})},
                stated);
  if (!without) cell.no_effect.reset();
  const bool direction = without && !without->other_cell && !without->least;
  if (cell.relation != Comparison::Relation::direction || direction) return;
  cell.relation = Comparison::Relation::about;
  cell.of_another_run = true;
  cell.reason = "at reduced size there is nothing on one side of which it could be";
}

}  // namespace frugal::experiments
