#include "experiments/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/support/error.h"

namespace frugal::experiments::policy {
namespace {

double part_of(Made made) {
  switch (made) {
    case Made::measured:
      return of_measured;
    case Made::timed:
      return of_timed;
    case Made::compared:
      return of_compared;
    case Made::counted:
      break;
  }
  return 0;
}

/// Of what its part is taken: of a percentage that stands beside a constant, such as an overhead or
/// a percentage of the baseline, the effect; otherwise the number itself.
double size_of(const Judged& number) {
  const bool effect = number.unit == "%" && !number.no_effect.other_cell;
  return std::abs(effect ? number.value - number.no_effect.value : number.value);
}

}  // namespace

Made made(std::string_view unit, std::string_view name) {
  constexpr std::array<std::string_view, 4> timed{"s", "ms", "seqs/s", "tokens/s"};
  if (!name.empty() && name != "counted" && name != "measured")
    throw InputError(fmt::format("numbers are \"counted\" or \"measured\", not \"{}\"", name));
  if (std::find(timed.begin(), timed.end(), unit) != timed.end()) return Made::timed;
  if (name == "measured") return unit == "x" ? Made::compared : Made::measured;
  if (name == "counted") return Made::counted;
  return unit == "x" || unit == "%" ? Made::compared : Made::counted;
}

Tolerance tolerance(const Judged& number) {
  const double part = part_of(number.made), uncertainty = number.uncertainty;
  const bool ratio = number.made == Made::compared && number.unit == "x";
  Tolerance allowed{part * size_of(number), fmt::format("{:.3g} %", 100 * part)};
  if (number.made == Made::compared && !ratio && !number.no_effect.other_cell)
    allowed.justification += " of the effect";
  if (!ratio && uncertainty >= allowed.value)
    allowed = {uncertainty, uncertainty == 0 ? "exact" : "as precise as the paper's number"};
  const double effect = std::abs(number.value - number.no_effect.value);
  if (of_effect * effect < allowed.value)
    allowed = {of_effect * effect,
               fmt::format("half of the effect: without it {:.4g}", number.no_effect.value)};
  return allowed;
}

void judge(Comparison& number, const Judged& as, const std::optional<Tolerance>& stated) {
  Tolerance allowed = tolerance(as);
  if (stated && stated->value < allowed.value) allowed = *stated;
  number.timed = as.made == Made::timed || as.made == Made::compared;
  number.no_effect = as.no_effect.value;
  if (number.timed && number.source == Source::measured && number.scale != 1 && number.paper) {
    number.relation = Comparison::Relation::direction;
    allowed = {0, fmt::format("the direction alone: a machine that runs {} of a model's size says "
                              "nothing of how large the effect is at full size",
                              scale_name(number.scale))};
  }
  number.tolerance = allowed.value;
  number.justification = allowed.justification;
}

void set_relation(Comparison& number, Comparison::Relation relation) {
  if (number.relation != Comparison::Relation::direction) number.relation = relation;
}

void judge_exact(Comparison& number, double chance, const std::string& justification, bool timed) {
  number.tolerance = 0;
  number.justification = justification;
  number.no_effect = chance;
  number.timed = timed;
}

}  // namespace frugal::experiments::policy
