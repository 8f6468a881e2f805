#pragma once
#include "engine/model/parameter.h"
#include "kernels/device_work.h"

namespace frugal::engine {

/// Bytes that a rank's part of a step cannot do without, however its operations are divided, where
/// it keeps and recomputes what it does: each is of what the ledger and the parameters hold.
/// Nothing is said of what is neither a weight nor kept, which might never reach memory.
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

/// What a rank does in passes that follow each other.
struct PassesDone {
  double microbatches = 1;
  double steps = 1;   ///< of the optimizer
  double kept = 0;    ///< bytes, of all of them
  double inputs = 0;  ///< bytes, of one microbatch
};

/// Least bytes of these passes together.
LeastBytes least_bytes(const Rank& rank, const ParameterList& parameters, const PassesDone& done);

/// One rank's part of a step, beside the least. A mean of steps that were made as one.
struct StepWork {
  int stage = 0;  ///< of its pipeline
  DeviceWork done;
  LeastBytes least;
};

/// The one that moves most bytes; of equal ones that of the first stage.
StepWork most_work(const std::vector<StepWork>& all);

}  // namespace frugal::engine
