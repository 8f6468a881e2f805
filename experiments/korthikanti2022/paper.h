#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "experiments/paper.h"

/// What the paper reports, from experiments/korthikanti2022/paper.json, which is part of the
/// program.
namespace frugal::experiments::korthikanti2022 {

inline constexpr const char* paper_id = "korthikanti2022";
/// What it measured, in programs/.
inline constexpr const char* papers_program = "megatron-lm-2022";
/// Program of its times, where memory is frugal's own.
inline constexpr const char* papers_time = "megatron-lm-2022:time:messages";

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

/// 22B, 175B, 530B, 1T.
const std::vector<Model>& models();
/// Throws std::out_of_range, as the names are the program's own.
const Model& model(std::string_view name);

/// All that it reports.
const Paper& paper();
inline const std::vector<PaperCell>& paper_cells() { return paper().cells(); }
inline const PaperCell* find_paper_cell(std::string_view artifact, std::string_view row,
                                        std::string_view column) {
  return paper().find_cell(artifact, row, column);
}
inline const PaperCell& paper_cell(std::string_view artifact, std::string_view row,
                                   std::string_view column) {
  return paper().cell(artifact, row, column);
}
inline std::string caption(const std::string& artifact) { return paper().caption(artifact); }
inline const Statement& statement(std::string_view id) { return paper().statement(id); }
inline const std::vector<std::string>& contradictions() { return paper().contradictions(); }

double peak_flops_per_gpu();

}  // namespace frugal::experiments::korthikanti2022
