#pragma once
#include <string_view>
#include <vector>

#include "experiments/pipedream2bw2021/paper.h"

namespace frugal::experiments::pipedream2bw2021 {

/// One of the five systems that figures 6, 7, 10 and 11 compare.
struct System {
  std::string_view name;
  ScheduleKind schedule;
  bool tensor_parallel = false;  ///< over `depth` GPUs, instead of a pipeline of as many stages
};
/// Throws std::out_of_range, as the names are the program's own.
const System& system_of(std::string_view name);

RunConfig config_of(const System& system, const Setup& setup, int64_t micro_batch, int64_t batch);

/// The largest microbatch, of 1, 2, 4, 8 and 16 sequences, that leaves each pipeline as many
/// microbatches as it has stages at the smallest batch of a figure's cells: 2BW needs them, and
/// with fewer no schedule fills its stages. All systems of a figure have the same one.
int64_t largest_microbatch(const Setup& setup, const std::vector<PaperCell>& cells);

}  // namespace frugal::experiments::pipedream2bw2021
