#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

Estimate thousand_mib(const Record& record) {
  constexpr double unit = 1000.0 * (1 << 20);
  return {static_cast<double>(
              record.memory.value().reserved.value_or(record.memory.value().peak_total)) /
          unit};
}

Declaration footprint(const std::string& name) {
  const Setup setup = setup_of(name);
  const std::vector<PaperCell> cells = cells_of(name);
  std::vector<Point> points;
  for (const PaperCell& cell : cells)
    points.push_back(
        {cell.row,
         cell.column,
         {try_of(config_of(system_of(cell.row), setup, largest_microbatch(setup, cells),
                           number_in(cell.column)))}});
  return training_figure(name, "1000 MiB", Steps::memory, std::move(points), thousand_mib,
                         {oom_claims(name)});
}

}  // namespace

/// Figures 7 and 11: memory of the GPU that needs most, where the microbatch is that of the
/// throughput figures and nothing smaller is tried.
std::vector<const Artifact*> footprints() {
  static const Family figures({"figure7", "figure11"}, footprint);
  return figures.artifacts();
}

}  // namespace frugal::experiments::pipedream2bw2021
