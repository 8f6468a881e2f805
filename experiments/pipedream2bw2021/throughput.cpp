#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"

namespace frugal::pipedream2bw2021 {
namespace {

constexpr const char* gpipe = "GPipe";
constexpr const char* largest_gpipe = "GPipe, largest batch that fits here";

/// One of two cells that a statement divides by each other.
struct Bar {
  std::string row, column;
};
Bar bar_of(const nlohmann::json& json) { return {json.at(0), json.at(1)}; }

std::optional<double> value_of(const std::vector<Cell>& cells, const Bar& bar) {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.row == bar.row && cell.column == bar.column;
  });
  return found == cells.end() ? std::nullopt : found->value;
}

/// Figures 6 and 10: sequences per second of the five systems, of each at the largest microbatch
/// that fits. GPipe is at its largest batch that fits in the paper, and in a further row at the
/// largest that fits here, where its memory is smaller.
class Throughput final : public TrainingFigure {
 public:
  explicit Throughput(const std::string& name) : TrainingFigure(name, "seqs/s", Steps::times) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Setting& setting : records.settings(id())) {
      if (setting.scale != 1) continue;
      std::vector<Cell> here;
      for (Cell& cell : cells(records))
        if (cell.scale == setting.scale && cell.on == setting.where())
          here.push_back(std::move(cell));
      add_ratios(claims, here, setting);
      add_orders(claims, here, setting);
    }
    return claims;
  }

 protected:
  double value(const Record& record) const override { return throughput(record); }

  std::vector<Point> points() const override {
    const Setup setup = setup_of(name());
    const std::vector<PaperCell> cells = cells_of(name());
    std::vector<Point> points;
    for (const PaperCell& cell : cells) {
      const System& system = system_of(cell.row);
      const int64_t largest = largest_microbatch(setup, cells), batch = number_in(cell.column);
      Point& point = points.emplace_back(Point{cell.row, cell.column, {}});
      const auto add = [&](int64_t b, int64_t sequences) {
        const RunConfig config = config_of(system, setup, b, sequences);
        point.tries.push_back({name_of(config), config});
      };
      if (cell.row == gpipe)
        add(largest, papers_microbatches() * largest * setup.width);
      else
        for (int64_t b = largest; b >= 1; b /= 2) add(b, batch);
    }
    for (const PaperCell& cell : cells)
      if (cell.row == gpipe)
        points.push_back(largest_here(setup, cell, largest_microbatch(setup, cells)));
    return points;
  }

 private:
  /// Of GPipe, as its bars have it: what fits in the paper's memory.
  int64_t papers_microbatches() const {
    return paper().document().at("artifacts").at(name()).at("gpipe_microbatches");
  }

  /// GPipe at the largest batch that fits: the bar's, halved until it does.
  Point largest_here(const Setup& setup, const PaperCell& bar, int64_t micro_batch) const {
    Point point{
        largest_gpipe, bar.column, {}, gpipe, "more microbatches fit here than in the paper"};
    for (int64_t n = number_in(bar.column); n >= micro_batch * setup.width; n /= 2) {
      const RunConfig config = config_of(system_of(gpipe), setup, micro_batch, n);
      point.tries.push_back({name_of(config), config});
    }
    return point;
  }

  /// The paper's statements that follow from this figure.
  void add_ratios(std::vector<Claim>& claims, const std::vector<Cell>& cells,
                  const Setting& setting) const {
    for (const auto& json : paper().document().at("statements")) {
      if (!json.contains("ratio") || json.at("ratio").at("artifact") != name()) continue;
      Claim& claim =
          claims.emplace_back(ratio_claim(json.at("id"), json.at("says"), json.at("value"), setting,
                                          value_of(cells, bar_of(json.at("ratio").at("of"))),
                                          value_of(cells, bar_of(json.at("ratio").at("over")))));
      claim.reason = json.value("contradicted", "");
      claim.expected = !claim.reason.empty();
    }
  }

  /// Which of two systems is faster, of all pairs.
  void add_orders(std::vector<Claim>& claims, const std::vector<Cell>& cells,
                  const Setting& setting) const {
    std::set<std::string> columns;
    for (const Cell& cell : cells) columns.insert(cell.column);
    for (const std::string& column : columns) claims.push_back(order_claim(cells, column, setting));
  }

  Claim order_claim(const std::vector<Cell>& cells, const std::string& column,
                    const Setting& setting) const {
    double right = 0, pairs = 0;
    std::string wrong, missing;
    const auto among = [&](const Cell& c) {
      return c.column == column && c.row != largest_gpipe && c.paper;
    };
    for (const Cell& c : cells)
      if (among(c) && !c.value) missing = fmt::format("{} has no number", c.row);
    for (const Cell& a : cells)
      for (const Cell& b : cells) {
        if (!among(a) || !among(b) || *a.paper <= *b.paper) continue;
        ++pairs;
        if (!missing.empty()) continue;
        if (*a.value > *b.value)
          ++right;
        else
          wrong += fmt::format("{}{} is not above {}", wrong.empty() ? "" : "; ", a.row, b.row);
      }
    Claim claim;
    claim.id = fmt::format("{}/{}/order", name(), column);
    claim.statement = fmt::format("{}: each pair of systems in the paper's order", column);
    claim.paper = pairs;
    claim.unit = "pairs";
    claim.justification = "a pair is in the paper's order or not";
    if (missing.empty())
      set(claim, setting, {Estimate{right}, Status::ok, wrong});
    else
      set(claim, setting, {std::nullopt, Status::ok, missing});
    return claim;
  }
};

}  // namespace

std::vector<const Artifact*> throughputs() {
  static const Throughput figures[] = {Throughput("figure6a"),  Throughput("figure6b"),
                                       Throughput("figure6c"),  Throughput("figure10a"),
                                       Throughput("figure10b"), Throughput("figure10c")};
  std::vector<const Artifact*> all;
  for (const Throughput& figure : figures) all.push_back(&figure);
  return all;
}

}  // namespace frugal::pipedream2bw2021
