#include "experiments/pipedream2bw2021/systems.h"

#include <algorithm>
#include <array>

#include "experiments/pipedream2bw2021/training_figure.h"

namespace frugal::experiments::pipedream2bw2021 {

const System& system_of(std::string_view name) {
  static const std::array systems = {
      System{"Inter-layer MP", ScheduleKind::inter_layer},
      System{"Tensor MP", ScheduleKind::one_forward_one_backward, true},
      System{"GPipe", ScheduleKind::gpipe},
      System{"PipeDream-Flush", ScheduleKind::one_forward_one_backward},
      System{"PipeDream-2BW", ScheduleKind::two_buffered}};
  for (const System& system : systems)
    if (system.name == name) return system;
  paper().unknown("system", name);
}

RunConfig config_of(const System& system, const Setup& setup, int64_t micro_batch, int64_t batch) {
  RunConfig config = pipeline_config(setup, system.schedule, micro_batch, batch);
  config.model.tied = system.tensor_parallel;  // there all ranks have parts of the one table
  if (system.tensor_parallel) std::swap(config.tensor_parallel, config.pipeline_parallel);
  return config;
}

int64_t largest_microbatch(const Setup& setup, const std::vector<PaperCell>& cells) {
  int64_t batch = number_in(cells.front().column);
  for (const PaperCell& cell : cells) batch = std::min(batch, number_in(cell.column));
  int64_t b = 16;
  while (b > 1 && batch / (b * setup.width) < setup.depth) b /= 2;
  return b;
}

}  // namespace frugal::experiments::pipedream2bw2021
