#include <fmt/format.h>

#include <array>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/layer_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr std::array columns{
    Named{"sequence parallel", sequence},
    Named{"selective recompute", selective},
    Named{"sequence parallel + selective recompute", present},
    Named{"full recompute", full},
    Named{"fused attention", fused},
    Named{"fused attention + sequence parallel", fused_sequence},
};

/// Figure 7: activations of a layer as a percentage of what tensor parallelism alone keeps. The
/// ratios are the same at every scale, so a small one is enough on the CPU.
class Figure7 final : public LayerArtifact {
 public:
  Figure7()
      : LayerArtifact("figure7", {.what = Case::What::module_memory,
                                  .models = {"22B", "175B", "530B", "1T"},
                                  .techniques = {baseline, sequence, selective, present, full,
                                                 fused, fused_sequence},
                                  .cpu_scale = 32,
                                  .cpu_type = DType::bf16,
                                  .cpu_micro_batch = std::nullopt}) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (!c.paper) continue;
      claims.push_back(claim_about(
          c, fmt::format("figure7/{}/{}", c.row, c.column),
          fmt::format("{}: {} leaves {} % of the activations", c.row, c.column, c.paper.value()),
          paper_cell("figure7", c.row, c.column).uncertainty,
          "the uncertainty of reading the bar's pixels"));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const std::string& name : model_names())
      for (const auto& [column, technique] : columns) {
        if (!layers(records, name, setting).expects(baseline, technique)) continue;
        const Outcome percent = layers(records, name, setting)
                                    .observe(
                                        [](const Record& base, const Record& ours) {
                                          return Estimate{100 * bytes_kept(ours, Kind::activation) /
                                                          bytes_kept(base, Kind::activation)};
                                        },
                                        baseline, technique);
        Cell cell = make_cell(name, column, "%", setting, percent);
        if (technique.attention == AttentionKind::fused) cell.note = not_the_papers;
        cells.push_back(std::move(cell));
      }
    return cells;
  }
};

}  // namespace

const Artifact& figure7() {
  static const Figure7 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
