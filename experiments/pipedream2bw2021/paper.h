#pragma once
#include "engine/config.h"
#include "experiments/paper.h"

/// What "Memory-Efficient Pipeline-Parallel DNN Training" reports, from
/// experiments/pipedream2bw2021/paper.json.
namespace frugal::experiments::pipedream2bw2021 {

inline constexpr const char* paper_id = "pipedream2bw2021";
/// What it measured, in programs/.
inline constexpr const char* papers_program = "pipedream-2bw-2021";
inline constexpr const char* papers_machine = "v100-p3-16xlarge";  ///< in hardware/

const Paper& paper();

/// How an artifact spreads its model over GPUs: `depth` of them hold a copy of it, as stages of a
/// pipeline or as a tensor-parallel group, and `width` copies share a batch.
struct Setup {
  ModelConfig model;
  int width = 1;  ///< [w]
  int depth = 1;  ///< [d]
};
/// Setup of an artifact that has one for all its cells.
Setup setup_of(const std::string& artifact);

/// The cells of an artifact, in the paper's order.
std::vector<PaperCell> cells_of(const std::string& artifact);

/// The number at the end of a column such as "batch 64".
int64_t number_in(const std::string& column);

}  // namespace frugal::experiments::pipedream2bw2021
