#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// How many ranks a launcher starts.
struct StartedRanks {
  std::optional<int64_t> ranks;
  /// Why that is not known, for a launcher that is known: "deepspeed has no --num_gpus".
  std::string unknown;
};

/// Ranks that the words before a program start: torchrun, torch.distributed.run, deepspeed,
/// accelerate, mpirun, srun, or one of them that starts another on each node. `variable` is what
/// the script or Slurm sets, which srun looks at; empty where nothing does.
StartedRanks started_ranks(const std::vector<std::string>& words,
                           const std::function<std::string(const std::string&)>& variable);

/// A whole number from 1 on; none where it is none.
std::optional<int64_t> count_in(const std::string& text);

}  // namespace frugal::harness
