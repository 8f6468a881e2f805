#include <fmt/format.h>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/layer_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

double median_forward(const Record& r) { return median(r.samples(metric::forward_time)); }
double median_backward(const Record& r) { return median(r.samples(metric::backward_time)); }
double layer_time(const Record& r) { return median_forward(r) + median_backward(r); }

/// A bar: a technique, and the same without what it computes again.
struct Bar {
  const char* name;
  Technique technique, without;
};
constexpr std::array bars{Bar{"full recompute", full, baseline},
                          Bar{"present work", present, sequence}};

/// Figure 8: forward, backward and recompute time of a layer of each model, as percentages of the
/// baseline layer's, which computes nothing again and has no sequence parallelism. A ratio of two
/// backward passes says what is computed again; it is not timed apart.
class Figure8 final : public LayerArtifact {
 public:
  Figure8()
      : LayerArtifact("figure8", {.what = Case::What::module_time,
                                  .models = {"22B", "175B", "530B", "1T"},
                                  .techniques = {baseline, sequence, full, present},
                                  .cpu_micro_batch = std::nullopt}) {}

  std::vector<Case> cases(const Selection& selection) const override {
    Selection here = selection;
    here.cpu = false;  // table 4 says what the techniques cost there
    return LayerArtifact::cases(here);
  }

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records))
      if (c.paper && c.column == "total")
        claims.push_back(claim_about(
            c, fmt::format("figure8/{}", c.row),
            fmt::format("{}: {} % of the baseline layer's time", c.row, c.paper.value()), 3,
            "3 points: a model of the machine, fitted to table 4 alone"));
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const std::string& name : model_names())
      for (const Bar& bar : bars) {
        const Layers layer = layers(records, name, setting);
        if (!layer.expects(baseline, bar.technique, bar.without)) continue;
        const std::string row = fmt::format("{}, {}", name, bar.name);
        const auto add = [&](const char* column, const auto& part) {
          const auto percent = [&](const Record& base, const Record& ours, const Record& without) {
            return Estimate{100 * part(ours, without) / layer_time(base)};
          };
          cells.push_back(make_cell(row, column, "%", setting,
                                    layer.observe(percent, baseline, bar.technique, bar.without)));
        };
        add("forward", [](const Record& ours, const Record&) { return median_forward(ours); });
        add("backward",
            [](const Record&, const Record& without) { return median_backward(without); });
        add("recompute", [](const Record& ours, const Record& without) {
          return median_backward(ours) - median_backward(without);
        });
        add("total", [](const Record& ours, const Record&) { return layer_time(ours); });
      }
    return cells;
  }
};

}  // namespace

const Artifact& figure8() {
  static const Figure8 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
