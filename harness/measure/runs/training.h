#pragma once
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/case_run.h"
#include "harness/measure/runs/training_run.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::engine {
class Trainer;
struct StepResult;
}  // namespace frugal::engine

namespace frugal::harness {

/// Held-out tokens that a loss is the mean of, where the text has as many; whole microbatches.
inline constexpr int64_t held_out_tokens = 32768;

/// Does once what only the first step would pay for; on a virtual device that is nothing. No weight
/// changes.
void warm_up(Trainer& trainer, const TrainingRun& run, const Target& target);

/// Some steps that were trained at once: the number of the first, from 0, and what each gave.
using StepsTaken = std::function<void(int64_t first, const std::vector<StepResult>& results)>;

/// Trains all steps, as many at once as the schedule goes through without a flush, or as it has
/// batches where it is the user's own. The steps before the first have been trained. `before` is
/// called in between, with how many have been.
void train_steps(
    Trainer& trainer, const TrainingRun& run, const Target& target, const StepDone& done,
    const StepsTaken& taken, int64_t first_step = 0,
    const std::function<void(int64_t step)>& before = [](int64_t) { stop_if_interrupted(); });

/// Trains, and fills in the record: losses, step times, memory, FLOPs, work. Leaves no ranks
/// behind: what is measured afterwards has the device for itself. Returns when the steps that are
/// timed ran.
std::vector<TimeWindow> train(const TrainingRun& run, const Target& target, Record& record,
                              const StepDone& done);

/// Random tokens or the text's, of the microbatches that `config` has; without tokens on a virtual
/// device, which would not read them.
Batch training_batch(const TrainingRun& run, const RunConfig& config, const Target& target,
                     int64_t step);
/// Memory of the rank with the highest peak, and of every stage.
Memory memory_of(Cluster& cluster);

/// Steps until a step's peak is that of all later ones: of a pipeline without a flush those that
/// fill it, of a program whose allocator or state settles later some more.
int64_t steps_to_settle(const RunConfig& config);

/// Memory, FLOPs and seconds of a step, taken from steps_to_settle() steps.
struct StepTaken {
  Memory memory;
  double flops = 0;    ///< executed by all ranks
  double seconds = 0;  ///< of the one in the middle
};
/// Takes steps_to_settle() steps on new ranks; random tokens on real memory. Throws OutOfMemory.
StepTaken take_step(Cluster& cluster, const RunConfig& config, const OptimizerOptions& optimizer);
/// FLOPs of a step that executed so many.
Flops flops_of(const RunConfig& config, double executed);

/// Bytes that each stage takes in take_step(): Record::memory. On a virtual machine without its
/// limit, on a real one within it; of a lone rank within it and of each distinct stage, one after
/// the other.
/// No time is kept, because a machine that has less would need none.
void observe_step_memory(const Target& target, Record& record);
/// A record's option that says so.
inline constexpr const char* counted_without_limit = "counted, without the machine's limit";

}  // namespace frugal::harness
