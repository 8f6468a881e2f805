#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/train/stored_weights.h"
#include "engine/train/trainer.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal {

/// Held-out tokens that a loss is the mean of, where the text has as many; whole microbatches.
inline constexpr int64_t held_out_tokens = 32768;

/// A schedule that is executed instead of the one that the configuration names, again and again. It
/// has the configuration's kind and shape and begins with batch 0; a run's steps are a multiple of
/// its batches.
struct OwnSchedule {
  Schedule schedule;
  std::string hash;  ///< hash_of() its text
};

/// A training run of the user's own configuration.
struct TrainingRun {
  RunConfig config;
  std::optional<OwnSchedule> own;
  TrainConfig train;
  std::optional<Text> text;  ///< random tokens otherwise
  int64_t eval_every = 0;    ///< steps; 0: at the end only
  int64_t last_words = 0;    ///< passages of the held-out task (LastWords); 0: none
  std::string save_tensors;  ///< a safetensors file; empty: none
  /// What training begins with; none: random weights.
  std::shared_ptr<StoredWeights> weights;
  std::string save_weights;  ///< a safetensors file; empty: none
};

/// What updates weights where nothing else is said: without clipping where weights step in
/// backward, before the gradient's norm is known.
OptimizerOptions default_optimizer(const RunConfig& config);

/// Record::options of a run: what decides it beside its configuration and its text.
std::map<std::string, std::string> options_of(const TrainingRun& run);

/// Called after each step, counted from 1, with what it gave in words.
using StepDone = std::function<void(int64_t step, const std::string& outcome)>;

/// Does once what only the first step would pay for; on a virtual device that is nothing. No weight
/// changes.
void warm_up(Trainer& trainer, const TrainingRun& run, const Target& target);

/// Some steps that were trained at once: the number of the first, from 0, and what each gave.
using StepsTaken = std::function<void(int64_t first, const std::vector<StepResult>& results)>;

/// Trains all steps, as many at once as the schedule goes through without a flush, or as it has
/// batches where it is the user's own. Throws Interrupted in between.
void train_steps(Trainer& trainer, const TrainingRun& run, const Target& target,
                 const StepDone& done, const StepsTaken& taken);

/// Trains and fills in the record: losses, step times, memory, FLOPs, MFU and HFU. However it ends,
/// the record says so; Interrupted and InputError are thrown on.
void run_training(const TrainingRun& run, Target& target, Record& record, const StepDone& done);

/// What one training step takes, or one of so many as fill a pipeline without a flush.
struct StepTaken {
  Memory memory;
  double flops = 0;  ///< executed by all ranks
};
/// Takes them on new ranks; on random tokens where memory is real. Throws OutOfMemory.
StepTaken take_step(Cluster& cluster, const RunConfig& config, const OptimizerOptions& optimizer);
/// Of a step that executed so many.
Flops flops_of(const RunConfig& config, double executed);

/// Bytes that each stage takes in take_step() on a virtual machine without its limit:
/// Record::memory. No time is kept, because a machine that has less would need none.
void observe_step_memory(const Target& target, Record& record);
/// A record's option that says so.
inline constexpr const char* counted_without_limit = "counted, without the machine's limit";

}  // namespace frugal
