#pragma once
#include <functional>
#include <optional>
#include <string>

#include "engine/train/trainer.h"
#include "harness/progress.h"
#include "harness/record.h"
#include "harness/target.h"

namespace frugal {

/// Held-out tokens that a loss is the mean of, where the text has as many; whole microbatches.
inline constexpr int64_t held_out_tokens = 32768;

/// A training run of the user's own configuration.
struct TrainingRun {
  RunConfig config;
  TrainConfig train;
  std::optional<Text> text;  ///< random tokens otherwise
  int64_t eval_every = 0;    ///< steps; 0: at the end only
  std::string save_tensors;  ///< a safetensors file; empty: none
};

/// Does once what only the first step would pay for; on a virtual device that is nothing. No weight
/// changes.
void warm_up(Trainer& trainer, const TrainingRun& run, const Target& target);

/// Trains all steps, as many at once as the schedule goes through without a flush. `done` is called
/// after each time, with the number of the first of them and what each gave. Throws Interrupted in
/// between.
void train_steps(
    Trainer& trainer, const TrainingRun& run, const Target& target, Progress& progress,
    const std::function<void(int64_t first, const std::vector<StepResult>& results)>& done);

/// Trains and fills in the record: losses, step times, memory, FLOPs, MFU and HFU. However it ends,
/// the record says so; Interrupted and InputError are thrown on.
void run_training(const TrainingRun& run, Target& target, Record& record, Progress& progress);

}  // namespace frugal
