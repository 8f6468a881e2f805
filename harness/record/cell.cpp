#include "harness/record/cell.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace frugal::harness {

std::string_view name_of(Source source) {
  static constexpr std::array<std::string_view, 3> names = {"virtual", "measured", "formula"};
  return names[static_cast<size_t>(source)];
}

std::string_view name_of(Status status) {
  static constexpr std::array<std::string_view, 7> names = {
      "ok", "oom", "skipped", "failed", "timeout", "peer_lost", "interrupted"};
  return names[static_cast<size_t>(status)];
}

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 6> names = {
      "reproduced", "not reproduced", "undecided",
      "calibrated", "not comparable", "not measurable here"};
  return names[static_cast<size_t>(verdict)];
}

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
  samples = source == Source::measured ? estimate.samples : 0;
}

Interval Comparison::band() const {
  constexpr double open = std::numeric_limits<double>::infinity();
  const double stated = reference().value(), allowed = tolerance.value_or(0);
  return {relation == Relation::at_most ? -open : stated - allowed,
          relation == Relation::at_least ? open : stated + allowed};
}

Verdict Comparison::verdict() const {
  if (!reference() || !value || !std::isfinite(*value)) return Verdict::not_measurable;
  if (fitted) return Verdict::calibrated;
  const auto [low, high] = band();
  if (low <= *value && *value <= high) return Verdict::reproduced;
  const bool reaches = interval && interval->low <= high && low <= interval->high;
  return reaches ? Verdict::undecided : Verdict::not_reproduced;
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
