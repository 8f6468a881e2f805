#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/place/target.h"
#include "harness/validate/finding.h"
#include "harness/validate/probe.h"

namespace frugal::harness {

/// What a machine reached, by the keys of probes and in their units.
struct ReferenceMachine {
  static constexpr const char* schema = "frugal.validation-reference/1";

  std::string source;  ///< "the reference healthy.json"
  std::string device;  ///< Target::device()
  std::map<std::string, double> values;
};

/// A file that an earlier validation wrote, or `frugal peak`: frugal.validation-reference/1,
/// frugal.measured-machine/1 or frugal.peak/1. Throws InputError that names the file and the key.
ReferenceMachine read_reference(const std::string& path);
/// What this validation measured, for later ones.
nlohmann::json reference_json(const std::vector<Series>& seen, const Target& target,
                              const std::string& command);

/// What is known of how fast a target should be.
class Expectations {
 public:
  /// What its data sheet says, what is recorded of a machine with the same device, and the
  /// references. Throws InputError for a reference of another device.
  Expectations(const Target& target, const std::vector<ReferenceMachine>& references);

  /// All that is known of a probe's quantity.
  std::vector<Expectation> of(const std::string& key) const;
  /// Why nothing is known of it, and what would make it known.
  std::string why_none() const;

 private:
  std::multimap<std::string, Expectation> known_;
};

}  // namespace frugal::harness
