#pragma once
#include "experiments/artifacts.h"
#include "experiments/declaration.h"
#include "experiments/pipedream2bw2021/paper.h"

namespace frugal::experiments::pipedream2bw2021 {

/// One way to run a point of a figure.
struct Try {
  std::string name;  ///< within the point: "b8 m32"
  RunConfig config;
};
/// "b8 m32" of a run.
Try try_of(const RunConfig& config);

/// A bar or a point of a figure.
struct Point {
  std::string row, column;
  /// What is tried until one fits into memory: the point is the first that does.
  std::vector<Try> tries;
  /// The paper's row whose number it stands beside, where that is another one.
  std::string paper_row = {};
  std::string reason = {};  ///< what a reader must know of it
};
/// A point for each of the paper's, that is run in one way only.
std::vector<Point> points_of(const std::string& artifact, RunConfig (*config)(const PaperCell&));

/// Steps of 2BW. Of times, the first has the pipeline's fill and the last has nothing behind it:
/// their median is the steady state's from five on. Both versions of the weights are there, and
/// memory is what it remains, from two on.
enum class Steps : uint8_t { memory = 2, times = 5 };

/// A figure whose points are training runs on the paper's machine, virtually: the whole model, its
/// schedule and its optimizer; and on GPUs, where one rank of each distinct stage runs if they are
/// fewer than the paper's. There, points of times have rows of their parts besides, and no number
/// stands beside the paper's: neither these GPUs nor their links are its own, so that there are no
/// claims either. `value` is a point's number, from the record of the try that fits.
Declaration training_figure(const std::string& name, const std::string& unit, Steps steps,
                            std::vector<Point> points, Estimate (*value)(const Record&),
                            std::vector<Claims> claims);

/// Whether memory runs out in the cells where the paper's does, and in no other.
Claims oom_claims(const std::string& figure);

/// Sequences per second of all GPUs, in the steady state: a step's time is the median of its
/// record's.
Estimate throughput(const Record& record);

/// A claim about how many times faster one of two cells is; null: there is no such cell.
Claim ratio_claim(std::string id, std::string statement, double paper, const Setting& setting,
                  const Cell* of, const Cell* over);

/// How the figures train: in 16 bits, activations computed again layer by layer. `batch` sequences
/// are those of all replicas.
RunConfig pipeline_config(const Setup& setup, ScheduleKind schedule, int64_t micro_batch,
                          int64_t batch);

}  // namespace frugal::experiments::pipedream2bw2021
