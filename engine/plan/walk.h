#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/plan/part_cost.h"
#include "engine/schedule/schedule.h"
#include "kernels/virtual/device_rules.h"

namespace frugal::engine {

/// A message between parts on different stages: seconds.
struct WalkMessage {
  double alone = 0;     ///< that it takes
  double beside = 0;    ///< the same while another goes the opposite way
  double buffered = 0;  ///< before its end, from which on its sender can do without it
  double gather = 0;    ///< in which the receiving ranks put it together

  double seconds() const { return alone + gather; }
};

/// What a pipeline does: in which order each stage makes its passes, what each of them costs, and
/// how long messages are on their way.
struct Walk {
  PartLayout layout;
  int microbatches = 1;  ///< [m] of a batch
  /// The chunk of a step's second half (StepValidation::after).
  static constexpr int validation = -1;
  /// Actions of each stage, without messages. A batch whose stages meet in its step has passes
  /// alone, from one meeting to the next. Otherwise there are several batches, with versions and
  /// steps; a step that is validated later has two halves.
  std::vector<Actions> actions;
  std::vector<PartCost> parts;  ///< in the model's order (PartLayout::part_at)
  /// Costs of microbatches whose backward pass is the next one behind their forward pass.
  /// Empty: that makes no difference.
  std::vector<PartCost> turning;
  /// Costs of each stage whose passes are made together, by the chunk of the forward pass.
  std::vector<std::array<PairCost, 2>> together;
  /// Seconds from a stage's last pass until it is ready for the step, in which stages meet if there
  /// is a flush, and from there to its next pass.
  std::vector<double> sums, step;
  std::vector<double> host_of_step;  ///< seconds in which the host gives it both
  /// Where stages step without meeting (StepValidation::after), of each stage.
  struct LateStep {
    double norm = 0;       ///< seconds of the squared norm of its gradients
    double ahead = 0;      ///< in which it writes weights, if it goes on with passes
    double validated = 0;  ///< of the step once the norm of all stages is known
    double passed_on = 0;  ///< of the message to the next stage with the norm so far
    double told = 0;       ///< of the last stage's message with the norm of all
  };
  std::vector<LateStep> late_steps;
  /// Without a flush: seconds in which the ends sum a tied table's gradients beside the passes of
  /// the next batch, and then step with it. Nothing where no table is tied.
  std::optional<double> late;
  /// From a part to the one behind it, or back; nothing on the same stage.
  std::vector<WalkMessage> ahead, back;
  int64_t message_bytes = 0;
  int batches = 1;  ///< more than two without a flush, and 1 otherwise

  /// Cost of the part through which a stage makes this pass.
  const PartCost& of_pass(size_t part, size_t stage, size_t index) const {
    return turning.empty() || !turns(actions[stage], index) ? parts[part] : turning[part];
  }
  /// Cost of a forward pass and the backward pass beside it.
  const PairCost& of_pair(size_t stage, const Action& forward) const {
    return together[stage][static_cast<size_t>(forward.chunk)];
  }

  /// Whether a forward pass and a backward pass of the same microbatch follow each other there.
  static bool turns(const Actions& passes, size_t index) {
    const size_t begin = passes[index].kind == ActionKind::forward ? index : index - 1;
    if (begin >= passes.size() - 1) return false;  // also where the first one would be before it
    const Action &first = passes[begin], &second = passes[begin + 1];
    return first.kind == ActionKind::forward && second.kind != ActionKind::forward &&
           first.chunk == second.chunk && first.microbatch == second.microbatch;
  }

  Messages messages = Messages::beside;
  // Where messages hold up passes:
  double launch = 0;  ///< seconds in which the host begins to send or to receive one
  bool synchronised =
      false;  ///< the host waits for each pass (DeviceRules::host_waits_around_passes)
};

/// How long a batch takes, by what makes it so long.
struct WalkTime {
  double passes = 0;    ///< if nothing but passes took time
  double step = 0;      ///< by which updates make that longer
  double sums = 0;      ///< sums over replicas, and of a tied table
  double messages = 0;  ///< and messages

  double seconds() const { return passes + step + sums + messages; }
};

/// Each pass begins as soon as its stage is free and what it needs is there. Messages hold a stage
/// up as StageExecutor is held up by those of a StagedGroup (engine/comm/staged.h). With a flush,
/// from one meeting of the stages to the next; otherwise the mean of the batches that are neither
/// first nor last, of which there is one at least. Nothing where stages exchange messages and would
/// wait for each other.
std::optional<WalkTime> time_of(const Walk& walk);

/// The most that a stage holds of microbatches and messages at once, bytes.
int64_t peak_of(const Walk& walk, int stage);

/// The most that it has offloaded of microbatches at once, bytes.
int64_t most_offloaded(const Walk& walk, int stage);

/// Which of them a part's pass of this kind is.
inline const PassCost& pass_of(const PartCost& part, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return part.forward;
    case ActionKind::input_backward:
      return part.input_backward;
    case ActionKind::weight_backward:
      return part.weight_backward;
    default:
      return part.backward;
  }
}

/// Seconds of a batch on a stage, whatever that waits for.
struct WalkSeconds {
  double device = 0;  ///< of its passes
  double host = 0;    ///< in which the host gives it these, messages and the step
};
/// The most that any stage takes of each.
WalkSeconds busiest(const Walk& walk);

}  // namespace frugal::engine
