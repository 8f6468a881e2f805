#include <fmt/format.h>

#include <sstream>

#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "harness/models.h"

namespace frugal::pipedream2bw2021 {
namespace {

/// A figure of 2BW's throughput over configurations, each of which is run as it is.
class Sweep : public TrainingFigure {
 public:
  explicit Sweep(const std::string& name) : TrainingFigure(name, "seqs/s", Steps::times) {}

 protected:
  double value(const Record& record) const override { return throughput(record); }
  virtual RunConfig config_of(const PaperCell& cell) const = 0;

  std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const PaperCell& cell : cells_of(name())) {
      const RunConfig config = config_of(cell);
      points.push_back({cell.row, cell.column, {{name_of(config), config}}});
    }
    return points;
  }
};

/// Figure 8: rows are pipeline depth and microbatch, columns the batch of 64 GPUs.
class Figure8 final : public Sweep {
  static constexpr const char* largest = "(d,b)=(8,32)";

 public:
  Figure8() : Sweep("figure8") {}

  /// What the figure is there for: a deeper pipeline with a larger microbatch wins at the largest
  /// batch, and without one it loses.
  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    const std::vector<Cell> all = cells(records);
    for (const Setting& setting : records.settings(id()))
      for (const Cell& best : all)
        for (const Cell& other : all) {
          const bool here = best.on == setting.where() && other.on == setting.where();
          if (!here || best.row != largest || other.row == largest || !best.paper || !other.paper ||
              best.column != other.column)
            continue;
          claims.push_back(ratio_claim(
              fmt::format("figure8/{} over {}", best.row, other.row),
              fmt::format("{}: {} is that much faster than {}", best.column, best.row, other.row),
              *best.paper / *other.paper, setting, best.value, other.value));
        }
    return claims;
  }

 protected:
  RunConfig config_of(const PaperCell& cell) const override {
    const auto& json = paper().document().at("artifacts").at(name());
    int depth = 0, micro_batch = 0;
    char comma = 0;
    std::istringstream(cell.row.substr(cell.row.rfind('(') + 1)) >> depth >> comma >> micro_batch;
    const Setup setup{find_model(json.at("model")), json.at("gpus").get<int>() / depth, depth};
    return pipeline_config(setup, ScheduleKind::two_buffered, micro_batch, number_in(cell.column));
  }
};

/// Figure 12: rows are the model and whether activations are computed again, columns the
/// microbatch. The paper does not say the batch: as many microbatches as stages, the fewest that
/// 2BW can have.
class Figure12 final : public Sweep {
 public:
  Figure12() : Sweep("figure12") {}

  std::vector<Claim> claims(const Records& records) const override { return oom_claims(records); }

 protected:
  RunConfig config_of(const PaperCell& cell) const override {
    const auto& json = paper().document().at("artifacts").at(name());
    const Setup setup{find_model(cell.row.starts_with("GPT 1.3B") ? "gpt-1.3b" : "gpt-2.2b"),
                      json.at("width"), json.at("depth")};
    const int64_t b = number_in(cell.column);
    RunConfig config = pipeline_config(setup, ScheduleKind::two_buffered, b, b * setup.depth);
    if (cell.row.ends_with("no recompute")) config.recompute = Recompute::none;
    return config;
  }
};

}  // namespace

const Artifact& figure8() {
  static const Figure8 figure;
  return figure;
}

const Artifact& figure12() {
  static const Figure12 figure;
  return figure;
}

}  // namespace frugal::pipedream2bw2021
