#pragma once
#include <string>
#include <vector>

#include "harness/compare/pairing.h"
#include "harness/compare/ratio.h"

namespace frugal::harness {

/// How a quantity is compared.
enum class QuantityKind : uint8_t {
  time,      ///< samples that repeat one observation; less is better
  counted,   ///< bytes and FLOPs
  observed,  ///< whatever else varies from run to run: a fraction, a rate
  sequence,  ///< of training steps: losses
};

/// A quantity as each process of one side and of the other observed it.
struct ObservedQuantity {
  std::string name, unit;
  QuantityKind kind = QuantityKind::counted;
  bool shown_where_same = true;  ///< whether it is told of where nothing changed
  ProcessSamples base, candidate;

  /// Whether every process of either side observed the same as the others of its side.
  bool exact() const;
  /// Whether every number of every process is above zero, as ratios need it.
  bool positive() const;
};

/// All quantities of a pair that both sides have. Those of a case that did not end well are none.
std::vector<ObservedQuantity> quantities_of(const CasePair& pair);

}  // namespace frugal::harness
