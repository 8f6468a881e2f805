#include <fmt/format.h>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "harness/settings/models.h"
#include "kernels/virtual/machine.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

/// The least that a run takes of a device, in bytes, but for what its passes keep.
struct LeastMemory {
  double per_parameter = 0;
  int64_t communicator = 0;
};

const Machine& machine() {
  static const Machine found = find_machine(papers_machine);
  return found;
}

/// With both versions of the weights.
LeastMemory own() { return {.per_parameter = 20}; }
/// As the paper's program: one version in 4 bytes, 2 of gradients, twice in a step, and a
/// communicator's buffers where there is more than one device.
LeastMemory programs(const Setup& setup) {
  return {.per_parameter = 26, .communicator = setup.depth > 1 ? machine().communicator_memory : 0};
}

/// One layer more than the first stage can have. Its weights and what its forward passes keep,
/// [s, b, h] of 16 bits for each layer and each of the d microbatches in flight, are more than the
/// device's memory, so the search begins with a run that is seen not to fit.
int64_t first_tried(const Setup& setup, const LeastMemory& least) {
  const auto capacity = static_cast<double>(machine().memory_capacity - least.communicator);
  ModelConfig one = setup.model, none = setup.model;
  one.layers = 1;
  none.layers = 0;
  const auto parameters = [](const ModelConfig& m) {
    return static_cast<double>(korthikanti2022::parameters(m));
  };
  const double tables = parameters(none), layer = parameters(one) - tables;
  const double kept = 2.0 * static_cast<double>(setup.depth * one.sequence * one.hidden);
  return 1 + static_cast<int64_t>((capacity - least.per_parameter * tables) /
                                  (least.per_parameter * layer + kept));
}

std::vector<Point> figure9_points() {
  std::vector<Point> points;
  for (const PaperCell& cell : cells_of("figure9")) {
    Setup setup{find_model("gpt-355m"), 1, static_cast<int>(number_in(cell.column))};
    Point& point = points.emplace_back(Point{cell.row, cell.column, {}});
    for (int64_t layers = first_tried(setup, own()); layers >= 1; --layers) {
      setup.model.layers = layers * setup.depth;
      point.tries.push_back({fmt::format("{} layers", setup.model.layers),
                             pipeline_config(setup, ScheduleKind::two_buffered, 1, setup.depth)});
    }
  }
  return points;
}

/// From one layer more on than the program could have.
Case without_larger(Case c) {
  const RunConfig& config = c.config;
  const Setup setup{config.model, config.data_parallel, config.pipeline_parallel};
  const int64_t first = first_tried(setup, programs(setup));
  while (c.config.model.layers / setup.depth > first && !c.smaller.empty()) {
    Case next = std::move(c.smaller.front());
    c = std::move(next);
  }
  return c;
}

Estimate billions(const Record& record) {
  return {1e-9 * static_cast<double>(korthikanti2022::parameters(record.config.model))};
}

Declaration declared_figure9() {
  const Statement& stated = paper().statement("max-model");
  Declaration figure = training_figure(
      "figure9", "billion parameters", Steps::memory, figure9_points(), billions,
      {claims_of_cells(
          {{.about = [](const Cell& c) { return c.column == "depth 64" && c.scale == 1; },
            .id = stated.id,
            .statement = stated.says}})});
  // None at another scale: a smaller model has another largest number of layers. None on GPUs: what
  // fits is decided by the paper's memory, from which the tries begin.
  figure.cases = [all = figure.cases](Selection selection) {
    selection.cuda.reset();
    return selection.scale.value_or(1) == 1 ? all(selection) : std::vector<Case>{};
  };
  figure.of_program = without_larger;
  return figure;
}

}  // namespace

/// Figure 9: the largest model that 2BW trains on as many GPUs as its pipeline has stages. Models
/// are layers of GPT-355M; of ever fewer layers on each stage, the first that fits counts.
const Artifact& figure9() {
  static const DeclaredArtifact figure(declared_figure9());
  return figure;
}

}  // namespace frugal::experiments::pipedream2bw2021
