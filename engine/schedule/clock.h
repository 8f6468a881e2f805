#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "engine/schedule/links.h"
#include "engine/schedule/timeline.h"
#include "kernels/virtual/device_rules.h"

namespace frugal::engine {

/// Seconds of a pass.
struct PassCost {
  double seconds = 0;  ///< of the device, while the host is ahead
  double host = 0;     ///< in which the host issues it
  /// Seconds by which the host has to begin before the device, so that the device need not wait for
  /// it. Counts where messages hold up hosts (Messages).
  double lead = 0;
  /// Offloaded activations: seconds in which copies to the host go on behind the pass, and from its
  /// beginning until it waits for the copies of the pass before.
  double copies = 0, grace = 0;
};
/// Costs by ActionKind: forward, backward, input_backward, weight_backward.
using PassCosts = std::array<PassCost, 4>;

/// Speeds of passes and of sums over replicas beside each other, as parts of what they are alone.
struct SharedSpeeds {
  double pass = 1, sum = 1;

  /// Seconds in which a pass that takes so many goes on beside sums that do.
  double together(double pass_seconds, double sum_seconds) const {
    return std::max(0.0, std::min(pass_seconds / pass, sum_seconds / sum));
  }
  /// Seconds by which that delays the pass, and the sums.
  double delay_of_pass(double beside) const { return beside * (1 - pass); }
  double delay_of_sums(double beside) const { return beside * (1 - sum); }
};

/// Sums over replicas that a batch's last backward pass through a part begins: seconds.
struct SumsBeside {
  double longer = 0;  ///< by which the pass takes longer beside them
  double sums = 0;    ///< of the sums alone
  double behind = 0;  ///< from the end of the pass to theirs, if nothing was summed before it
};

/// Costs of a schedule's passes, steps and messages.
struct ClockCosts {
  struct Stage {
    double sums = 0;  ///< seconds from the last pass of a batch until the stage is ready to step
    double step = 0;  ///< seconds from there to its next pass
    double host = 0;  ///< seconds in which the host issues both
    /// Seconds of a pass with another version of the weights than the pass before, by chunk.
    std::vector<double> other_version = {};
    double late_step = 0;  ///< seconds of stepping a tied table once its gradients are summed
    // Steps that are validated later (StepValidation::after):
    double norm = 0;       ///< seconds of the squared norm of the stage's gradients
    double ahead = 0;      ///< in which it writes weights, if it goes on with passes
    double validated = 0;  ///< of the step once the norm of all stages is known
    double passed_on = 0;  ///< of the message to the next stage with the norm so far
    double told = 0;       ///< of the last stage's message with the norm of all
  };
  std::vector<Stage> stages;
  std::vector<PassCosts> parts;  ///< in the model's order (PartLayout::part_at)
  /// Passes of microbatches whose backward pass is the next one behind their forward pass. Empty:
  /// they cost the same.
  std::vector<PassCosts> turning = {};
  /// Sums of each part, of whole backward passes and of those of weights. Empty: there are none.
  std::vector<std::array<SumsBeside, 2>> beside = {};
  SharedSpeeds speeds = {};
  /// A forward pass and the whole backward pass made together with it, of each stage, by the
  /// forward pass's chunk. Empty: the sum of both.
  std::vector<std::vector<PassCost>> together = {};
  /// Messages from a part to the one behind it, and back; nothing on the same stage.
  std::vector<LinkCost> ahead, back;
  Messages messages = Messages::beside;
  double launch = 0;  ///< seconds in which the host begins to send or to receive
  bool synchronised =
      false;  ///< the host waits for each pass (DeviceRules::host_waits_around_passes)
  /// Stages meet in their steps: the clock starts behind one meeting and stops at the next.
  bool between_meetings = false;
  /// Steps are validated later, where the schedule says (with_validations()).
  bool validates_later = false;
  /// Seconds in which the ends sum a tied table's gradients beside the passes of the next batch.
  std::optional<double> late_table = std::nullopt;

  /// Cost of a forward pass and the backward pass beside it.
  PassCost pair(const PartLayout& layout, int stage, const Action& one, const Action& other) const;
};

/// Seconds of a batch, by cause.
struct BatchTime {
  double passes = 0;    ///< if nothing but passes took time
  double step = 0;      ///< added by updates
  double sums = 0;      ///< added by sums over replicas, and of a tied table
  double messages = 0;  ///< added by messages

  double seconds() const { return passes + step + sums + messages; }
};

/// A moment on a stage's clock, and when it would be if messages took no time, and if sums and
/// steps took none either: seconds.
struct Moments {
  double all = 0, without_messages = 0, of_passes = 0;

  Moments after_step(double seconds) const {
    return {all + seconds, without_messages + seconds, of_passes};
  }
  /// The moment so much later; earlier if negative.
  Moments moved(double seconds) const {
    return {all + seconds, without_messages + seconds, of_passes + seconds};
  }
};

/// Plays a schedule: each pass begins as soon as its stage is free and its input is there. Messages
/// of one channel travel one after another, and hold up stages by the rules of StagedGroup
/// (engine/comm/staged.h). A schedule without messages sends what a pass has made when the pass
/// ends, and receives what it needs when it begins; one with messages does so where they stand.
class PipelineClock {
 public:
  /// Both outlive the clock.
  PipelineClock(const Schedule& schedule, const ClockCosts& costs)
      : schedule_(schedule), costs_(costs) {}

  /// Returns false where stages would wait for each other. Fills `spans`, if there are such, with
  /// when each action happens; their actions are the schedule's.
  bool run(std::vector<std::vector<Span>>* spans = nullptr);

  /// Time of a batch: between meetings of the stages; otherwise the mean of the batches that are
  /// neither first nor last, of which there is one at least.
  BatchTime time() const;

 private:
  BatchTime between_meetings() const;
  BatchTime between_steps() const;

  const Schedule& schedule_;
  const ClockCosts& costs_;
  // Of each stage, the end of its last action and of its sums, and of each of its steps.
  std::vector<Moments> ends_, sums_;
  std::vector<double> slowed_;  // seconds by which sums have delayed each stage's passes
  std::vector<std::vector<Moments>> steps_;
};

/// True if a forward pass and a backward pass of the same microbatch follow each other there.
bool turns_at(const Actions& passes, size_t index);

/// The chunk of a step's second half, in which it is validated.
inline constexpr int validation = -1;

}  // namespace frugal::engine
