#pragma once
#include <span>
#include <string>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// Seconds of something with a technique and without it, for each round in which both took turns.
struct InRounds {
  std::span<const double> with, without;

  /// By how much longer it takes with the technique, as a fraction.
  Estimate change() const;
};

/// Why the change of a whole time is not the effect of a technique. A control is a part of it that
/// is the same work with the technique and without. Where the control changed by more than the
/// whole, and surely so by its interval, the device was at another speed in the turns of one of
/// both: warmer, or at another clock. `control_name` begins the text, as "the forward pass" does.
/// Empty where nothing speaks against the effect. Throws as exact_ratio().
std::string why_no_effect(const InRounds& effect, const InRounds& control,
                          std::string_view control_name);

/// "+3.1 % [+2.9, +3.4]" of a fraction with its interval.
std::string signed_percent(const Estimate& fraction);

}  // namespace frugal::harness
