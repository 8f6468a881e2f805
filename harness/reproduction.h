#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/artifact.h"
#include "harness/table.h"

namespace frugal {

/// What artifacts came to: the result of `frugal reproduce`.
struct Reproduction {
  static constexpr const char* schema = "frugal.reproduction/1";

  std::vector<Cell> cells;
  std::vector<Claim> claims;
  std::map<std::string, std::string> titles;  ///< of artifacts, by id

  /// Adds what an artifact makes of records.
  void add(const Artifact& artifact, const Records& records);
  bool any_claim_failed() const;
};

nlohmann::json to_json(const Reproduction& reproduction);
/// The cells, one per line, with the keys of the JSON as header.
std::string to_csv(const Reproduction& reproduction);

/// One artifact: a line per row and column of the paper, the paper's value, and beside it one pair
/// of columns (value with interval, error) for each source, device and scale.
Table cell_table(const Reproduction& reproduction, const std::string& artifact);
Table claim_table(const Reproduction& reproduction);
/// Why values are missing or not comparable, each reason once.
std::vector<std::string> remarks(const Reproduction& reproduction, const std::string& artifact);

std::string to_text(const Reproduction& reproduction);
std::string to_markdown(const Reproduction& reproduction);

}  // namespace frugal
