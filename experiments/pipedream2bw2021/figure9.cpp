#include <fmt/format.h>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "harness/models.h"

namespace frugal::pipedream2bw2021 {
namespace {

/// Layers on the first stage of which the weights and what its forward passes keep fill a GPU of
/// 16 GiB: 20 bytes for each parameter with both versions of the weights, and [s, b, h] of 16 bits
/// for each layer and each of the d microbatches in flight. No more can fit.
int64_t most_layers(const Setup& setup) {
  constexpr double capacity = 16.0 * (1 << 30), bytes_per_parameter = 20;
  ModelConfig one = setup.model, none = setup.model;
  one.layers = 1;
  none.layers = 0;
  const auto parameters = [](const ModelConfig& m) {
    return static_cast<double>(korthikanti2022::parameters(m));
  };
  const double tables = parameters(none), layer = parameters(one) - tables;
  const double kept = 2.0 * static_cast<double>(setup.depth * one.sequence * one.hidden);
  return static_cast<int64_t>((capacity - bytes_per_parameter * tables) /
                              (bytes_per_parameter * layer + kept));
}

/// Figure 9: the largest model that 2BW trains on as many GPUs as its pipeline has stages. Models
/// are layers of GPT-355M; of ever fewer layers on each stage, the first that fits counts.
class Figure9 final : public TrainingFigure {
 public:
  Figure9() : TrainingFigure("figure9", "billion parameters", Steps::memory) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& cell : cells(records)) {
      if (cell.column != "depth 64" || cell.scale != 1) continue;
      const Statement& stated = paper().statement("max-model");
      Claim claim =
          claim_about(cell, stated.id, stated.says, 0.05, "the uncertainty of reading the figure");
      claim.relation = Claim::Relation::at_least;
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  /// None at another scale: a smaller model has another largest number of layers.
  std::vector<Case> cases(const Selection& selection) const override {
    if (selection.scale.value_or(1) != 1) return {};
    return TrainingFigure::cases(selection);
  }

 protected:
  double value(const Record& record) const override {
    return 1e-9 * static_cast<double>(korthikanti2022::parameters(record.config.model));
  }

  std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const PaperCell& cell : cells_of(name())) {
      Setup setup{find_model("gpt-355m"), 1, static_cast<int>(number_in(cell.column))};
      Point& point = points.emplace_back(Point{cell.row, cell.column, {}});
      for (int64_t layers = most_layers(setup); layers >= 1; --layers) {
        setup.model.layers = layers * setup.depth;
        point.tries.push_back({fmt::format("{} layers", setup.model.layers),
                               pipeline_config(setup, ScheduleKind::two_buffered, 1, setup.depth)});
      }
    }
    return points;
  }
};

}  // namespace

const Artifact& figure9() {
  static const Figure9 figure;
  return figure;
}

}  // namespace frugal::pipedream2bw2021
