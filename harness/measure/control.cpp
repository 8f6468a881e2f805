#include "harness/measure/control.h"

#include <fmt/format.h>

#include <cmath>

namespace frugal::harness {
namespace {

/// Whether it surely is not 0; a number without an interval is exact.
bool is_sure(const Estimate& change) {
  return !change.interval || change.interval->low > 0 || change.interval->high < 0;
}

}  // namespace

Estimate InRounds::change() const {
  Estimate change = exact_ratio(with, without);
  change.value -= 1;
  for (std::optional<Interval>* of : {&change.interval, &change.early})
    if (*of) *of = Interval{(*of)->low - 1, (*of)->high - 1};
  return change;
}

std::string why_no_effect(const InRounds& effect, const InRounds& control,
                          std::string_view control_name) {
  const Estimate whole = effect.change(), part = control.change();
  if (!is_sure(part) || std::abs(part.value) <= std::abs(whole.value)) return "";
  return fmt::format(
      "{}, the same work, changed by {}, and the whole by {}: the device was at another speed in "
      "the "
      "turns of one of them; time them again with --steady --rerun all",
      control_name, signed_percent(part), signed_percent(whole));
}

std::string signed_percent(const Estimate& fraction) {
  std::string value = fmt::format("{:+.1f} %", 100 * fraction.value);
  if (!fraction.interval) return value;
  return fmt::format("{} [{:+.1f}, {:+.1f}]", value, 100 * fraction.interval->low,
                     100 * fraction.interval->high);
}

}  // namespace frugal::harness
