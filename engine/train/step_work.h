#pragma once
#include "engine/model/parameter.h"
#include "kernels/device_work.h"

namespace frugal::engine {

/// Least bytes that a rank's part of a step moves, however its operations are divided, if it keeps
/// and recomputes the same: from the ledger and the parameters. Tensors that are neither weights
/// nor kept are left out, since they might never reach memory.
struct LeastBytes {
  double weights = 0;    ///< read by every forward and every backward pass, written by the step
  double gradients = 0;  ///< written by the first backward pass, read and written by each later
                         ///< one, read by the step; where ranks divide them, each writes its own
                         ///< anew in every pass, and the step reads a part
  double optimizer = 0;  ///< its state, read and written
  double kept = 0;       ///< what forward keeps for backward (Ledger::kept()), written and read
  double inputs = 0;     ///< token ids and labels, read once; of a module alone x and dy, or labels

  double total() const { return weights + gradients + optimizer + kept + inputs; }
};

/// Passes of a rank that follow each other.
struct PassesDone {
  double microbatches = 1;
  double steps = 1;   ///< of the optimizer
  double kept = 0;    ///< bytes, of all of them
  double inputs = 0;  ///< bytes, of one microbatch
};

/// Counts the least bytes of these passes together.
LeastBytes least_bytes(const Rank& rank, const ParameterList& parameters, const PassesDone& done);

/// One rank's part of a step, beside the least. A mean of steps that were made as one.
struct StepWork {
  int stage = 0;  ///< of its pipeline
  DeviceWork done;
  LeastBytes least;
};

/// Picks the work that moves most bytes; of equal ones that of the first stage.
StepWork most_work(const std::vector<StepWork>& all);

}  // namespace frugal::engine
