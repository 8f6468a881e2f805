#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"

namespace frugal::pipedream2bw2021 {
namespace {

/// Figures 7 and 11: memory of the GPU that needs most, where the microbatch is that of the
/// throughput figures and nothing smaller is tried.
class Footprint final : public TrainingFigure {
 public:
  explicit Footprint(const std::string& name) : TrainingFigure(name, "1000 MiB", Steps::memory) {}

  std::vector<Claim> claims(const Records& records) const override { return oom_claims(records); }

 protected:
  double value(const Record& record) const override {
    constexpr double unit = 1000.0 * (1 << 20);
    return static_cast<double>(record.memory.value().peak_total) / unit;
  }

  std::vector<Point> points() const override {
    const Setup setup = setup_of(name());
    const std::vector<PaperCell> cells = cells_of(name());
    std::vector<Point> points;
    for (const PaperCell& cell : cells) {
      const RunConfig config = config_of(system_of(cell.row), setup,
                                         largest_microbatch(setup, cells), number_in(cell.column));
      points.push_back({cell.row, cell.column, {{name_of(config), config}}});
    }
    return points;
  }
};

}  // namespace

std::vector<const Artifact*> footprints() {
  static const Footprint figure7("figure7"), figure11("figure11");
  return {&figure7, &figure11};
}

}  // namespace frugal::pipedream2bw2021
