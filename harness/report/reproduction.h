#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/measure/artifact.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// What artifacts came to: the result of `frugal reproduce`.
struct Reproduction {
  /// docs/reproduction.md describes it.
  static constexpr const char* schema = "frugal.reproduction/1";

  std::vector<Cell> cells;
  std::vector<Claim> claims;
  std::map<std::string, std::string> titles;  ///< of artifacts, by id

  /// Adds what an artifact makes of records.
  void add(const Artifact& artifact, const Records& records);
};

/// "virtual:a100-selene", "measured cpu at 1/8", "formula": the name of a column.
std::string origin(const Comparison& number);

nlohmann::json to_json(const Cell& cell);
nlohmann::json to_json(const Claim& claim);
nlohmann::json to_json(const Reproduction& reproduction);
/// The cells, one per line, with the keys of the JSON as header.
std::string to_csv(const Reproduction& reproduction);

/// Where a cell's value stands in a table; behind it are its error and its verdict.
struct CellPlace {
  size_t row, column;
  const Cell* cell;
};

/// The cells of one artifact at one scale, and beneath them what a reader has to know: why values
/// are missing, and their notes, each once.
struct CellTable {
  std::string heading;  ///< id, scale unless it is 1, and title of the artifact
  Table table;
  std::vector<std::string> remarks;
  std::vector<CellPlace> places;  ///< of every cell
};

/// Every artifact in turn, a table for each scale, so that all in a line is of the same size: row
/// and column of the paper; its number, its formula's at this scale; and for each source and device
/// three columns, value with interval, error and verdict. Ratios of the paper, which a scale model
/// keeps, are in a column that says that they are of the full size.
std::vector<CellTable> cell_tables(const Reproduction& reproduction);
Table claim_table(const Reproduction& reproduction);

std::string to_text(const Reproduction& reproduction);
std::string to_markdown(const Reproduction& reproduction);

}  // namespace frugal::harness
