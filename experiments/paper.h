#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/namespace.h"
#include "harness/report/inventory.h"
#include "kernels/support/json_file.h"

namespace frugal::experiments {

/// One number of a table or figure of a paper.
struct PaperCell {
  std::string artifact;  ///< "table4"
  std::string row, column;
  double value = 0;
  std::string unit;
  std::string read;  ///< "printed", "digitized" or "derived"
  /// In `unit`: of a digitized value that with which it was read, of a printed one half a unit of
  /// its last digit, or a whole one where it is the longest that ran, of lengths in thousands.
  double uncertainty = 0;
  bool oom = false;  ///< the paper reports that memory ran out; then there is no value
};

/// A sentence of a paper.
struct Statement {
  /// Two cells of which one is so many times the other.
  struct Ratio {
    struct Of {
      std::string row, column;
    };
    std::string artifact;
    Of of, over;
  };
  std::string id, where, says;
  std::optional<double> value = {};         ///< the number in it, where there is a single one
  double uncertainty = 0;                   ///< of it, as it is printed
  std::optional<Ratio> ratio = {};          ///< that it is about
  std::string contradicted;                 ///< by what of the paper; else empty
  std::vector<std::string> artifacts = {};  ///< names of those that have its numbers
  std::string why_not = {};                 ///< there is none
};

/// What cells of an artifact would be if what they are about had no effect: a number, or that of
/// another cell.
struct NoEffectRule {
  std::string row, column;  ///< of which cells; empty: any
  /// Otherwise that of the cell of these names, where empty those of its own.
  std::optional<double> value = {};
  std::string artifact = {}, other_row = {}, other_column = {};
};

/// A pass of a worker as a figure draws it; microbatches are counted from 1.
struct DrawnPass {
  bool forward = true;
  int microbatch = 1;
  double begin = 0, end = 0;
  bool operator==(const DrawnPass&) const = default;
};

/// What a paper reports, from experiments/ID/paper.json, which is part of the program. Its names
/// are the program's own: what it does not have throws std::out_of_range, or InputError.
class Paper {
 public:
  explicit Paper(const std::string& id);
  /// Reads a paper from this text.
  Paper(std::string id, std::string_view text);

  const std::string& id() const { return id_; }
  const std::vector<PaperCell>& cells() const { return cells_; }
  /// Null where the paper has no such number, such as the overhead of a baseline.
  const PaperCell* find_cell(std::string_view artifact, std::string_view row,
                             std::string_view column) const;
  const PaperCell& cell(std::string_view artifact, std::string_view row,
                        std::string_view column) const;
  /// Cells of an artifact, in the paper's order.
  std::vector<PaperCell> cells_of(const std::string& artifact) const;
  std::string caption(const std::string& name) const;
  const std::vector<Statement>& statements() const { return statements_; }
  const Statement& statement(std::string_view id) const;
  /// Where the paper contradicts itself.
  const std::vector<std::string>& contradictions() const { return contradictions_; }
  /// What the paper says of all its runs, of those of an artifact, and of each of its models.
  JsonObject setup() const;
  JsonObject artifact(const std::string& name) const;
  std::vector<JsonObject> models() const;
  /// Of an artifact's cells: the first that fits counts.
  std::vector<NoEffectRule> no_effect(const std::string& name) const;
  /// How its numbers come about, where their units do not say it (policy::made()); else empty.
  std::string numbers(const std::string& name) const;
  /// Its tables and figures, as its `inventory` lists them, and its statements.
  Inventory inventory() const;
  /// Passes of each worker of an artifact that is a drawn timeline.
  std::vector<std::vector<DrawnPass>> workers(const std::string& name) const;

  [[noreturn]] void unknown(const std::string& what, std::string_view name) const;

 private:
  JsonObject root() const;

  std::string id_;
  std::shared_ptr<const nlohmann::json> document_;
  std::vector<PaperCell> cells_;
  std::vector<Statement> statements_;
  std::vector<std::string> contradictions_;
};

}  // namespace frugal::experiments
