#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frugal {

/// One number of a table or figure of a paper.
struct PaperCell {
  std::string artifact;  ///< "table4"
  std::string row, column;
  double value = 0;
  std::string unit;
  std::string read;        ///< "printed", "digitized" or "derived"
  double uncertainty = 0;  ///< of a digitized value, in `unit`
  bool oom = false;        ///< the paper reports that memory ran out; then there is no value
};

/// A sentence of a paper.
struct Statement {
  std::string id, where, says;
  std::optional<double> value;  ///< the number in it, where there is a single one
};

/// What a paper reports, from experiments/ID/paper.json, which is part of the program. Its names
/// are the program's own: what it does not have throws std::out_of_range.
class Paper {
 public:
  explicit Paper(const std::string& id);

  const std::string& id() const { return id_; }
  const std::vector<PaperCell>& cells() const { return cells_; }
  /// Null where the paper has no such number, such as the overhead of a baseline.
  const PaperCell* find_cell(std::string_view artifact, std::string_view row,
                             std::string_view column) const;
  const PaperCell& cell(std::string_view artifact, std::string_view row,
                        std::string_view column) const;
  /// Those of an artifact, in the paper's order.
  std::vector<PaperCell> cells_of(const std::string& artifact) const;
  std::string caption(const std::string& artifact) const;
  const Statement& statement(std::string_view id) const;
  /// Where the paper contradicts itself.
  const std::vector<std::string>& contradictions() const { return contradictions_; }
  /// All of paper.json, for what only one paper has.
  const nlohmann::json& document() const { return document_; }

  [[noreturn]] void unknown(const std::string& what, std::string_view name) const;

 private:
  std::string id_;
  nlohmann::json document_;
  std::vector<PaperCell> cells_;
  std::vector<Statement> statements_;
  std::vector<std::string> contradictions_;
};

}  // namespace frugal
