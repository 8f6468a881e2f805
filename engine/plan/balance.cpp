#include "engine/plan/balance.h"

#include <algorithm>

namespace frugal::engine {

std::vector<int64_t> balanced_layers(const RunConfig& run, const PartCosts& costs) {
  const PartLayout layout = run.part_layout();
  const auto seconds = [](const PartCost& cost) {
    return cost.forward.seconds + cost.backward.seconds;
  };
  std::vector<int64_t> layers(static_cast<size_t>(layout.parts()), 1);
  std::vector<double> stages(static_cast<size_t>(layout.stages));
  for (int part = 0; part < layout.parts(); ++part)
    stages[static_cast<size_t>(layout.seat_of(part).stage)] +=
        seconds(costs.of({.layers = 1, .first = part == 0, .last = part == layout.parts() - 1}));
  // All layers are alike, so that each may go where least is to be done so far.
  const double layer = seconds(costs.layer());
  for (int64_t left = run.model.layers - layout.parts(); left > 0; --left) {
    const auto least = std::min_element(stages.rbegin(), stages.rend());
    const auto stage = static_cast<int>(stages.rend() - least) - 1;
    *least += layer;
    int fewest = layout.part_at({stage, 0});
    for (int chunk = 1; chunk < layout.chunks; ++chunk)
      if (const int part = layout.part_at({stage, chunk});
          layers[static_cast<size_t>(part)] < layers[static_cast<size_t>(fewest)])
        fewest = part;
    ++layers[static_cast<size_t>(fewest)];
  }
  return layers;
}

}  // namespace frugal::engine
