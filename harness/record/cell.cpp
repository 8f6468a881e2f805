#include "harness/record/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace frugal::harness {

std::string scale_name(int64_t scale) { return scale == 1 ? "1" : "1/" + std::to_string(scale); }

std::optional<int64_t> parse_scale(std::string_view text) {
  if (text == "1") return 1;
  if (text.substr(0, 2) != "1/") return std::nullopt;
  int64_t k = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 2, end, k);
  if (error != std::errc() || stop != end || k < 1) return std::nullopt;
  return k;
}

void Comparison::set(const Estimate& estimate) {
  value = estimate.value;
  interval = estimate.interval;
  early = estimate.early;
  samples = source == Source::measured ? estimate.samples : 0;
}

Interval Comparison::band() const {
  constexpr double open = std::numeric_limits<double>::infinity();
  const double stated = reference().value(), allowed = tolerance.value_or(0);
  if (relation == Relation::direction) {
    const double without = no_effect.value();
    return stated > without ? Interval{std::nextafter(without, open), open}
                            : Interval{-open, std::nextafter(without, -open)};
  }
  return {relation == Relation::at_most ? -open : stated - allowed,
          relation == Relation::at_least ? open : stated + allowed};
}

Verdict Comparison::verdict_of(const std::optional<Interval>& known) const {
  if (!known && timed && source == Source::measured) return Verdict::undecided;
  const auto [first, last] = known.value_or(Interval{*value, *value});
  const auto [low, high] = band();
  if (last < low || high < first) return Verdict::not_reproduced;
  const bool may_be_none = known && no_effect && first <= *no_effect && *no_effect <= last;
  return low <= first && last <= high && !may_be_none ? Verdict::reproduced : Verdict::undecided;
}

Verdict Comparison::verdict() const {
  if (!reference() || !value || !std::isfinite(*value)) return Verdict::not_measurable;
  if (fitted) return Verdict::calibrated;
  return verdict_of(interval);
}

bool Comparison::is_decided_early() const {
  return verdict() != Verdict::undecided && (!interval || verdict_of(early) != Verdict::undecided);
}

std::optional<double> Comparison::rounds_to_decide() const {
  if (!interval) return std::nullopt;
  // An interval is as wide as one over the root of the number of its samples.
  const auto [low, high] = band();
  double times = 1;
  const auto narrow = [&](double part, double room) {
    if (part > 0) times = std::max(times, std::pow(part / room, 2));
  };
  if (*value > high) {
    narrow(*value - interval->low, *value - high);
  } else if (*value < low) {
    narrow(interval->high - *value, low - *value);
  } else {
    narrow(*value - interval->low, *value - low);
    narrow(interval->high - *value, high - *value);
  }
  const double more = std::ceil((times - 1) * samples);
  constexpr double most = 1e6;
  return more < most ? std::optional(std::max(1.0, more)) : std::nullopt;
}

std::string more_rounds(std::optional<double> count) {
  if (!count) return "more rounds will hardly decide it: it is at the edge";
  // Two digits: the spread itself is an estimate.
  const double digit = std::pow(10, std::max(0.0, std::floor(std::log10(*count)) - 1));
  return fmt::format("about {:.0f} more rounds would decide it, by the spread seen",
                     std::ceil(*count / digit) * digit);
}

std::string Comparison::why_undecided() const {
  if (interval) return more_rounds(rounds_to_decide());
  return fmt::format("timed without an interval, which {} samples have", interval_minimum);
}

bool Comparison::passes_without_effect() const {
  if (!reference()) return false;
  if (!no_effect) return true;
  const auto [low, high] = band();
  return low <= *no_effect && *no_effect <= high;
}

std::optional<Verdict> Cell::verdict() const {
  if (!has_papers() || !tolerance) return std::nullopt;
  if (of_another_run) return Verdict::not_comparable;
  const bool ran_out = status == Status::oom;
  if (paper_oom && (value || ran_out))
    return ran_out ? Verdict::reproduced : Verdict::not_reproduced;
  if (ran_out) return Verdict::not_reproduced;
  return Comparison::verdict();
}

std::optional<double> Cell::error_percent() const {
  const auto beside = reference();
  if (unit == "%" || !beside || !value || *beside == 0) return std::nullopt;
  return 100 * (*value - *beside) / std::abs(*beside);
}

std::optional<double> Cell::error_points() const {
  const auto beside = reference();
  if (unit != "%" || !beside || !value) return std::nullopt;
  return *value - *beside;
}

std::string Claim::note() const {
  return links.empty() ? "" : "communication modelled on " + links;
}

}  // namespace frugal::harness
