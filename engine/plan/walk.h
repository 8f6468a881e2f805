#pragma once
#include <vector>

#include "engine/plan/part_cost.h"
#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// A batch on a pipeline: in which order each stage makes its passes, what each of them costs, and
/// how long messages are on their way.
struct Walk {
  PartLayout layout;
  int microbatches = 1;          ///< [m] of a batch
  std::vector<Actions> actions;  ///< passes alone, of each stage
  std::vector<PartCost> parts;   ///< in the model's order (PartLayout::part_at)
  /// Seconds from a stage's last pass until it is ready for the step, in which stages meet, and
  /// from there to its next batch.
  std::vector<double> sums, step;
  /// Seconds of a message from a part to the one behind it, or back; 0 on the same stage.
  std::vector<double> ahead, back;
  int64_t message_bytes = 0;
  bool keeps_messages = true;  ///< that it has sent, until the next one to the same side
};

/// How long a batch takes, from one meeting of the stages to the next, by what makes it so long.
struct WalkTime {
  double passes = 0;    ///< if nothing but passes took time
  double step = 0;      ///< by which what follows a meeting makes that longer
  double sums = 0;      ///< what precedes it
  double messages = 0;  ///< and messages
};

/// Each pass begins as soon as its stage is free and what it needs is there. A stage sends beside
/// its passes, to each side one message after the other.
WalkTime time_of(const Walk& walk);

/// The most that a stage holds of microbatches and messages at once, bytes.
int64_t peak_of(const Walk& walk, int stage);

/// Seconds of the passes of the stage where they take longest.
double busiest(const Walk& walk);

}  // namespace frugal::engine
