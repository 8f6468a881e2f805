#pragma once
#include <array>
#include <vector>

#include "engine/plan/links.h"
#include "engine/plan/part_cost.h"
#include "engine/schedule/clock.h"

namespace frugal::engine {

/// Seconds of a batch on a stage without waiting.
struct StageBusy {
  double device = 0;  ///< of its passes
  double host = 0;    ///< in which the host issues these, messages and the step
};

/// Costs of a run's passes and messages: seconds for PipelineClock, and bytes.
class RunCosts {
 public:
  /// Costs without sums behind passes, and without steps.
  RunCosts(const RunConfig& run, const PartCosts& costs, const Links& links, const CostModel& times,
           const Machine& machine);

  ClockCosts clock;

  /// Executes passes that are made together, which takes a search long: it does so where a run is
  /// not too slow anyway. All functions below but least_passes_of() need it.
  void execute_pairs(const RunConfig& run, const PartCosts& costs);

  /// Costs of the part in this chunk of a stage.
  const PartCost& part_of(int stage, int chunk) const {
    return parts_[static_cast<size_t>(layout_.part_at({stage, chunk}))];
  }
  /// Seconds of the sums that this chunk's last backward pass begins.
  double begun_by(int stage, int chunk) const {
    return clock.beside[static_cast<size_t>(layout_.part_at({stage, chunk}))][0].sums;
  }
  /// The least seconds of a microbatch's passes on a stage; more exact behind execute_pairs().
  double least_passes_of(int stage, const ScheduleKind& kind) const;

  // Of a batch's passes, of a schedule without messages:

  /// The most that any stage takes.
  StageBusy busiest(const Schedule& passes) const;
  /// The most bytes that a stage holds of microbatches and messages at once.
  int64_t peak(const Schedule& passes, int stage) const;
  /// The most bytes that it has offloaded of microbatches at once.
  int64_t most_offloaded(const Schedule& passes, int stage) const;

 private:
  class Held;
  const PartCost& of_pass(int stage, const Actions& actions, size_t index) const;
  const PairCost& of_pair(int stage, const Action& forward) const {
    return together_[static_cast<size_t>(stage)][static_cast<size_t>(forward.chunk)];
  }
  int messages_of(size_t part, ActionKind pass) const;
  StageBusy busy(const Actions& actions, int stage) const;

  PartLayout layout_;
  std::vector<PartCost> parts_;    // in the model's order
  std::vector<PartCost> turning_;  // ClockCosts::turning
  std::vector<std::array<PairCost, 2>> together_;
  int64_t message_bytes_ = 0;
  bool makes_together_ = false;
};

}  // namespace frugal::engine
