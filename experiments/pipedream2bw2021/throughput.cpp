#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

constexpr const char* gpipe = "GPipe";
constexpr const char* largest_gpipe = "GPipe, largest batch that fits here";

const Cell* bar_of(const std::vector<Cell>& cells, const Statement::Ratio::Of& bar) {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.row == bar.row && cell.column == bar.column;
  });
  return found == cells.end() ? nullptr : &*found;
}

/// GPipe at the largest batch that fits: the bar's, halved until it does.
Point largest_here(const Setup& setup, const PaperCell& bar, int64_t micro_batch) {
  Point point{largest_gpipe, bar.column, {}, gpipe, "more microbatches fit here than in the paper"};
  for (int64_t n = number_in(bar.column); n >= micro_batch * setup.width; n /= 2)
    point.tries.push_back(try_of(config_of(system_of(gpipe), setup, micro_batch, n)));
  return point;
}

std::vector<Point> throughput_points(const std::string& name) {
  const Setup setup = setup_of(name);
  const std::vector<PaperCell> cells = cells_of(name);
  const int64_t largest = largest_microbatch(setup, cells);
  // Of GPipe, as its bars have it: what fits in the paper's memory.
  const auto gpipe_microbatches = paper().artifact(name).require<int64_t>("gpipe_microbatches");
  std::vector<Point> points, here;
  for (const PaperCell& cell : cells) {
    Point& point = points.emplace_back(Point{cell.row, cell.column, {}});
    const auto add = [&](int64_t b, int64_t sequences) {
      point.tries.push_back(try_of(config_of(system_of(cell.row), setup, b, sequences)));
    };
    if (cell.row == gpipe) {
      add(largest, gpipe_microbatches * largest * setup.width);
      here.push_back(largest_here(setup, cell, largest));
    } else {
      for (int64_t b = largest; b >= 1; b /= 2) add(b, number_in(cell.column));
    }
  }
  points.insert(points.end(), here.begin(), here.end());
  return points;
}

/// The paper's statements that follow from a figure.
std::vector<Claim> ratio_claims(const std::string& name, const Results::InSetting& in) {
  std::vector<Claim> claims;
  for (const Statement& stated : paper().statements()) {
    if (!stated.ratio || stated.ratio->artifact != name) continue;
    Claim& claim = claims.emplace_back(
        ratio_claim(stated.id, stated.says, stated.value.value(), in.runs.setting(),
                    bar_of(in.cells, stated.ratio->of), bar_of(in.cells, stated.ratio->over)));
    claim.reason = stated.contradicted;
    claim.expected = !claim.reason.empty();
  }
  return claims;
}

/// Which of two systems is faster, of all pairs.
Claim order_claim(const std::string& name, const std::string& column,
                  const Results::InSetting& in) {
  double right = 0, pairs = 0;
  std::string wrong, missing;
  const auto among = [&](const Cell& c) {
    return c.column == column && c.row != largest_gpipe && c.paper;
  };
  for (const Cell& c : in.cells)
    if (among(c) && !c.value) missing = fmt::format("{} has no number", c.row);
  for (const Cell& a : in.cells)
    for (const Cell& b : in.cells) {
      if (!among(a) || !among(b) || *a.paper <= *b.paper) continue;
      ++pairs;
      if (!missing.empty()) continue;
      if (*a.value > *b.value)
        ++right;
      else
        wrong += fmt::format("{}{} is not above {}", wrong.empty() ? "" : "; ", a.row, b.row);
    }
  Claim claim =
      claim_of(fmt::format("{}/{}/order", name, column),
               fmt::format("{}: each pair of systems in the paper's order", column), "pairs", pairs,
               in.runs.setting(),
               missing.empty() ? Outcome{Estimate{right}, Status::ok, wrong, cases_of(in.cells)}
                               : Outcome{std::nullopt, Status::ok, missing});
  // A coin has half of them right.
  policy::judge_exact(claim, pairs / 2, "a pair is in the paper's order or not", true);
  return claim;
}

Declaration throughput_figure(const std::string& name) {
  const auto claims = [name](const Results::InSetting& in) {
    std::vector<Claim> all = ratio_claims(name, in);
    std::set<std::string> columns;
    for (const Cell& cell : in.cells) columns.insert(cell.column);
    for (const std::string& column : columns) all.push_back(order_claim(name, column, in));
    return all;
  };
  return training_figure(name, "seqs/s", Steps::times, throughput_points(name), throughput,
                         {claims_of_settings(claims, true)});
}

}  // namespace

/// Figures 6 and 10: sequences per second of the five systems, of each at the largest microbatch
/// that fits. GPipe is at its largest batch that fits in the paper, and in a further row at the
/// largest that fits here, where its memory is smaller.
std::vector<const Artifact*> throughputs() {
  static const Family figures(
      {"figure6a", "figure6b", "figure6c", "figure10a", "figure10b", "figure10c"},
      throughput_figure);
  return figures.artifacts();
}

}  // namespace frugal::experiments::pipedream2bw2021
