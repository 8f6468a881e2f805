#include "harness/cell.h"

#include <array>
#include <charconv>
#include <cmath>

namespace frugal {

std::string_view name_of(Source source) {
  static constexpr std::array<std::string_view, 3> names = {"virtual", "measured", "formula"};
  return names[static_cast<size_t>(source)];
}

std::string_view name_of(Status status) {
  static constexpr std::array<std::string_view, 6> names = {"ok",     "oom",     "skipped",
                                                            "failed", "timeout", "interrupted"};
  return names[static_cast<size_t>(status)];
}

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 3> names = {"reproduced", "not reproduced",
                                                            "not measurable here"};
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

std::optional<double> Cell::error_percent() const {
  if (!paper || !value || !comparable || *paper == 0) return std::nullopt;
  return 100 * (*value - *paper) / std::abs(*paper);
}

Verdict Claim::verdict() const {
  if (!paper || !value || !std::isfinite(*value)) return Verdict::not_measurable;
  const double above = *value - *paper;
  const bool holds = relation == Relation::about      ? std::abs(above) <= tolerance
                     : relation == Relation::at_least ? above >= -tolerance
                                                      : above <= tolerance;
  return holds ? Verdict::reproduced : Verdict::not_reproduced;
}

}  // namespace frugal
