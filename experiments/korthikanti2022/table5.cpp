#include <fmt/format.h>

#include <array>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/iteration.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* table = "table5";
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
  const double before = paper_cell(table, row, full_time).value;
  const double after = paper_cell(table, row, present_time).value;
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
  const PaperCell& paper = paper_cell(table, row, column);
  Cell c;
  c.artifact = fmt::format("{}/{}", paper_id, table);
  c.row = row;
  c.column = column;
  c.unit = paper.unit;
  c.paper = paper.value;
  c.read = paper.read;
  c.source = Source::formula;
  return c;
}

Claim formula_claim(const Derived& d, const PaperCell& paper) {
  Claim claim;
  claim.id = fmt::format("table5/{}/{}", paper.row, paper.column);
  claim.statement = fmt::format("{}: {} {} %", paper.row, d.statement, paper.value);
  claim.paper = paper.value;
  claim.unit = paper.unit;
  claim.value = d.value;
  claim.tolerance = d.rounding + percent_rounding;
  claim.justification = "times are printed to 0.01 s, percentages to 0.1";
  claim.source = Source::formula;
  return claim;
}

/// How far the machine's model may be off, which has seen none of these numbers.
constexpr double time_tolerance = 0.06, increase_tolerance = 3, utilization_tolerance = 1.5;

std::vector<Iteration> iterations() {
  std::vector<Iteration> all;
  for (const Model& model : models())
    for (const Technique& technique : {full, present})
      all.push_back({model.config.name, technique});
  return all;
}

/// Table 5: whole iterations, on the paper's machine, virtually; and what equations 7 and 8 make of
/// the paper's own times.
class Table5 final : public IterationArtifact {
 public:
  Table5() : IterationArtifact(table, iterations()) {}

  std::vector<Cell> cells(const Records& records) const override {
    std::vector<Cell> cells = IterationArtifact::cells(records);
    for (const Model& model : models())
      for (const Derived& d : derived(model)) {
        cells.push_back(formula_cell(model.config.name, d.column));
        cells.back().value = d.value;
        cells.back().note = "follows from the paper's own times";
      }
    return cells;
  }

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Model& model : models())
      for (const Derived& d : derived(model))
        claims.push_back(formula_claim(d, paper_cell(table, model.config.name, d.column)));
    for (const Cell& c : IterationArtifact::cells(records)) {
      const bool time = c.unit != "%";
      const double tolerance = time ? time_tolerance * c.paper.value()
                               : c.column == "throughput increase" ? increase_tolerance
                                                                   : utilization_tolerance;
      claims.push_back(claim_about(
          c, fmt::format("table5/{}/{}", c.row, c.column),
          fmt::format("{}: {} is {} {}", c.row, c.column, c.paper.value(), c.unit), tolerance,
          "6 % of a time, 3 points of a gain, 1.5 of a utilization: a model of the machine, fitted "
          "to table 4 alone"));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const Model& model : models()) {
      const std::string& row = model.config.name;
      const Iteration before{row, full}, after{row, present};
      cells.push_back(cell(row, full_time, "s", setting, records, seconds, before));
      cells.push_back(cell(row, present_time, "s", setting, records, seconds, after));
      cells.push_back(cell(
          row, "throughput increase", "%", setting, records,
          [](const Record& b, const Record& a) { return 100 * (seconds(b) / seconds(a) - 1); },
          before, after));
      cells.push_back(cell(row, "MFU", "%", setting, records, mfu, after));
      cells.push_back(cell(row, "HFU", "%", setting, records, hfu, after));
    }
    return cells;
  }
};

}  // namespace

const Artifact& table5() {
  static const Table5 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
