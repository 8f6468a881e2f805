#pragma once
#include <vector>

#include "engine/model/part.h"
#include "engine/train/optimizer.h"
#include "kernels/virtual/machine.h"

namespace frugal::engine {

/// What a part of a model costs one rank: seconds and bytes, as the program takes them when it
/// executes the part alone on a virtual device.
struct PartCost {
  double forward = 0, backward = 0;  ///< of one microbatch; recomputation is part of backward
  double step = 0;                   ///< the optimizer's, without what it waits for
  double other_version = 0;          ///< of a pass of another version than the one before

  int64_t weights = 0;        ///< of one version
  int64_t gradients = 0;      ///< what replicas sum
  int64_t fixed = 0;          ///< held between batches, with one version of the weights
  int64_t kept = 0;           ///< of a microbatch between its two passes
  int64_t forward_peak = 0;   ///< above what is held before the microbatch's input comes
  int64_t backward_peak = 0;  ///< the same in its backward pass, what was kept included
};

/// Executes a part of run.model once: parameters, one microbatch forward and backward, and a step,
/// all on one rank of run.tensor_parallel. Pipeline and replicas of `run` do not count; its
/// schedule decides how the optimizer steps. The machine's memory has no end here: what does not
/// fit has a size, too.
PartCost execute_part(const RunConfig& run, const OptimizerOptions& optimizer,
                      const Machine& machine, const ModelPart& part);

/// Costs of parts of any number of layers, from parts of one layer and of two: each layer more of a
/// kind costs the same. That is so because layers of a kind are equal, each keeps the same, and the
/// last one to run forward, or the first one backward, has the peak. There are several kinds where
/// every so many layers have a window (ModelConfig::window_period).
class PartCosts {
 public:
  PartCosts(const RunConfig& run, const OptimizerOptions& optimizer, const Machine& machine);

  PartCost of(const ModelPart& part) const;

 private:
  struct Kind {
    PartCost one[2][2];  // a part of one such layer, by whether the part is first and last
    PartCost next;       // what the layer after it adds
  };
  std::vector<Kind> kinds_;
};

}  // namespace frugal::engine
