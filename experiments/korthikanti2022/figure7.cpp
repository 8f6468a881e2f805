#include <array>

#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr std::array figure7_columns{
    Named{"sequence parallel", sequence},
    Named{"selective recompute", selective},
    Named{"sequence parallel + selective recompute", present},
    Named{"full recompute", full},
    Named{"fused attention", fused},
    Named{"fused attention + sequence parallel", fused_sequence},
};

double percent_kept(const Record& base, const Record& ours) {
  return 100 * bytes_kept(ours, Kind::activation) / bytes_kept(base, Kind::activation);
}

std::vector<DeclaredCell> figure7_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const Model& of : models())
    for (const auto& [column, technique] : figure7_columns)
      cells.push_back(layer_cell(of.config.name, std::string(column), "%", of.config.name,
                                 {baseline, technique}, percent_kept));
  return cells;
}

}  // namespace

/// Figure 7: activations of a layer as a percentage of what tensor parallelism alone keeps. The
/// ratios are the same at every scale, so a small one is enough on the CPU.
const Artifact& figure7() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "figure7",
       .cases = layer_cases(
           {.techniques = {baseline, sequence, selective, present, full, fused, fused_sequence},
            .cpu_scale = 32}),
       .cells = figure7_cells,
       .any_size = true,
       .divided = true,
       .claims = {claims_of_cells(
           {{.id = "figure7/{row}/{column}",
             .statement = "{row}: {column} leaves {paper} % of the activations"}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
