#include <fmt/format.h>

#include <sstream>

#include "experiments/pipedream2bw2021/training_figure.h"
#include "harness/settings/models.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

constexpr const char* largest = "(d,b)=(8,32)";

/// Rows are pipeline depth and microbatch, columns the batch of 64 GPUs.
RunConfig figure8_config(const PaperCell& cell) {
  const JsonObject figure = paper().artifact("figure8");
  int depth = 0, micro_batch = 0;
  char comma = 0;
  std::istringstream(cell.row.substr(cell.row.rfind('(') + 1)) >> depth >> comma >> micro_batch;
  const Setup setup{find_model(figure.require<std::string>("model")),
                    static_cast<int>(figure.require<int64_t>("gpus")) / depth, depth};
  return pipeline_config(setup, ScheduleKind::two_buffered, micro_batch, number_in(cell.column));
}

/// What the figure is there for: a deeper pipeline with a larger microbatch wins at the largest
/// batch, and without one it loses.
std::vector<Claim> figure8_ratios(const Results::InSetting& in) {
  std::vector<Claim> claims;
  for (const Cell& best : in.cells)
    for (const Cell& other : in.cells) {
      if (best.row != largest || other.row == largest || !best.paper || !other.paper ||
          best.column != other.column)
        continue;
      claims.push_back(ratio_claim(
          fmt::format("figure8/{} over {}", best.row, other.row),
          fmt::format("{}: {} is that much faster than {}", best.column, best.row, other.row),
          *best.paper / *other.paper, in.runs.setting(), &best, &other));
    }
  return claims;
}

/// Rows are the model and whether activations are computed again, columns the microbatch. The paper
/// does not say the batch: as many microbatches as stages, the fewest that 2BW can have.
RunConfig figure12_config(const PaperCell& cell) {
  const JsonObject figure = paper().artifact("figure12");
  const Setup setup{find_model(cell.row.starts_with("GPT 1.3B") ? "gpt-1.3b" : "gpt-2.2b"),
                    static_cast<int>(figure.require<int64_t>("width")),
                    static_cast<int>(figure.require<int64_t>("depth"))};
  const int64_t b = number_in(cell.column);
  RunConfig config = pipeline_config(setup, ScheduleKind::two_buffered, b, b * setup.depth);
  if (cell.row.ends_with("no recompute")) config.recompute = Recompute::none;
  return config;
}

/// 2BW's throughput over configurations, each of which is run as it is.
Declaration sweep(const std::string& name, RunConfig (*config)(const PaperCell&), Claims claims) {
  return training_figure(name, "seqs/s", Steps::times, points_of(name, config), throughput,
                         {std::move(claims)});
}

}  // namespace

const Artifact& figure8() {
  static const DeclaredArtifact figure(
      sweep("figure8", figure8_config, claims_of_settings(figure8_ratios)));
  return figure;
}

const Artifact& figure12() {
  static const DeclaredArtifact figure(sweep("figure12", figure12_config, oom_claims("figure12")));
  return figure;
}

}  // namespace frugal::experiments::pipedream2bw2021
