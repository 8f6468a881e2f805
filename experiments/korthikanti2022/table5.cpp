#include <fmt/format.h>

#include <array>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/paper.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* name = "table5";
constexpr const char* full_time = "full recompute";
constexpr const char* present_time = "sequence parallel + selective recompute";
constexpr double time_rounding = 0.005;  // seconds: times are printed to a hundredth
constexpr double percent_rounding = 0.05;

/// A column that follows from the printed times, in percent, and by how much it may be off because
/// the times were rounded before they were printed.
struct Derived {
  const char* column;
  const char* statement;
  double value;
  double rounding;
};

std::array<Derived, 3> derived(const Model& model) {
  const std::string& row = model.config.name;
  const double before = paper_cell(name, row, full_time).value;
  const double after = paper_cell(name, row, present_time).value;
  const auto batch = static_cast<double>(model.global_batch);
  const auto percent_of_peak = [&](double flops) {
    return 100 * utilization(flops, after, static_cast<double>(model.gpus), peak_flops_per_gpu());
  };
  const double increase = 100 * (before / after - 1);
  const double mfu = percent_of_peak(model_flops(model.config, batch));
  const double hfu = percent_of_peak(hardware_flops_eq8(model.config, batch));
  const double relative = time_rounding / after;
  return {{{"throughput increase", "throughput rises by", increase,
            (100 + increase) * (relative + time_rounding / before)},
           {"MFU", "model FLOPs utilization is", mfu, mfu * relative},
           {"HFU", "hardware FLOPs utilization is", hfu, hfu * relative}}};
}

Cell formula_cell(const std::string& row, const char* column) {
  const PaperCell& paper = paper_cell(name, row, column);
  Cell c;
  c.artifact = fmt::format("{}/{}", paper_id, name);
  c.row = row;
  c.column = column;
  c.unit = paper.unit;
  c.paper = paper.value;
  c.read = paper.read;
  c.source = Source::formula;
  return c;
}

/// Table 5: what equations 7 and 8 make of the paper's own iteration times. No time is measured
/// here: a whole model's iteration needs its cluster.
class Table5 final : public Artifact {
 public:
  std::string id() const override { return fmt::format("{}/{}", paper_id, name); }
  std::string title() const override { return caption(name); }
  std::vector<Case> cases(const Selection&) const override { return {}; }

  std::vector<Cell> cells(const Records&) const override {
    std::vector<Cell> cells;
    for (const Model& model : models()) {
      for (const char* column : {full_time, present_time}) {
        cells.push_back(formula_cell(model.config.name, column));
        cells.back().status = Status::skipped;
        cells.back().reason = "the printed time is where the other columns are derived from";
      }
      for (const Derived& d : derived(model)) {
        cells.push_back(formula_cell(model.config.name, d.column));
        cells.back().value = d.value;
      }
    }
    return cells;
  }

  std::vector<Claim> claims(const Records&) const override {
    std::vector<Claim> claims;
    for (const Model& model : models())
      for (const Derived& d : derived(model)) {
        const PaperCell& paper = paper_cell(name, model.config.name, d.column);
        Claim claim;
        claim.id = fmt::format("table5/{}/{}", paper.row, paper.column);
        claim.statement = fmt::format("{}: {} {} %", paper.row, d.statement, paper.value);
        claim.paper = paper.value;
        claim.unit = paper.unit;
        claim.value = d.value;
        claim.tolerance = d.rounding + percent_rounding;
        claim.justification = "times are printed to 0.01 s, percentages to 0.1";
        claim.source = Source::formula;
        claims.push_back(std::move(claim));
      }
    return claims;
  }
};

}  // namespace

const Artifact& table5() {
  static const Table5 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
