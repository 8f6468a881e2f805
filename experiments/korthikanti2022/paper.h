#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"

/// What the paper reports, from experiments/korthikanti2022/paper.json, which is part of the
/// program.
namespace frugal::korthikanti2022 {

inline constexpr const char* paper_id = "korthikanti2022";

/// One of the four models of table 3 and how it was run.
struct Model {
  ModelConfig config;
  int64_t tensor_parallel = 1;    ///< [t]
  int64_t pipeline_parallel = 1;  ///< [p]
  int64_t interleave = 1;         ///< [m]
  int64_t gpus = 1;
  int64_t micro_batch = 1;   ///< [b], sequences
  int64_t global_batch = 1;  ///< [B], sequences
};

/// One number of a table or figure.
struct PaperCell {
  std::string artifact;  ///< "table4"
  std::string row, column;
  double value = 0;
  std::string unit;
  std::string read;        ///< "printed", "digitized" or "derived"
  double uncertainty = 0;  ///< of a digitized value, in `unit`
};

/// A sentence of the paper.
struct Statement {
  std::string id, where, says;
  std::optional<double> value;  ///< the number in it, where there is a single one
};

/// 22B, 175B, 530B, 1T.
const std::vector<Model>& models();
/// Throws std::out_of_range, as the names are the program's own.
const Model& model(std::string_view name);

const std::vector<PaperCell>& paper_cells();
/// Null where the paper has no such number, such as the overhead of table 4's baseline.
const PaperCell* find_paper_cell(std::string_view artifact, std::string_view row,
                                 std::string_view column);
/// Throws std::out_of_range where the paper has no such number.
const PaperCell& paper_cell(std::string_view artifact, std::string_view row,
                            std::string_view column);
/// The artifact's caption; throws std::out_of_range.
std::string caption(const std::string& artifact);

const Statement& statement(std::string_view id);
/// Where the paper contradicts itself.
const std::vector<std::string>& contradictions();

double peak_flops_per_gpu();

}  // namespace frugal::korthikanti2022
