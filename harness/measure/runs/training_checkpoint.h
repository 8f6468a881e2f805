#pragma once
#include <cstdint>

#include "harness/measure/runs/checkpoint_manifest.h"
#include "harness/measure/runs/training_run.h"
#include "harness/record/line_file.h"
#include "harness/record/record.h"

namespace frugal::engine {
class Cluster;
class DistributedModel;
}  // namespace frugal::engine

namespace frugal::harness {

/// Checkpoints of a training in a folder: "step-00000120" has a file of each rank that has a part
/// of its own (Trainer::save_state) and manifest.json, which says what was trained and which files
/// there are, with their hashes. It is written as "step-00000120.part" and renamed: what has its
/// name is whole. The last two are kept.
class TrainingCheckpoints {
 public:
  /// Throws InputError where the folder cannot be written, another run writes to it, or it has
  /// checkpoints and the run does not go on from one of them (run.resume).
  explicit TrainingCheckpoints(const TrainingRun& run);

  /// Whether there is to be one behind this step: of every so many, and of the last.
  bool due(int64_t step) const;
  /// All processes call it. `record` has what was found up to this step.
  void write(DistributedModel& model, Cluster& cluster, const Record& record, int64_t step);
  /// A safe point behind a step that was trained here. All processes call it, and where one of them
  /// was asked to stop, all write a checkpoint and throw Kept.
  void stop_if_interrupted(DistributedModel& model, Cluster& cluster, Record& record, int64_t step);

 private:
  void keep_the_last() const;

  const TrainingRun& run_;
  LineFile lock_;
  int64_t written_ = 0;  ///< behind which step
};

/// Steps to the next checkpoint behind `step`; all that are left where there is none.
int64_t steps_to_checkpoint(const TrainingRun& run, int64_t step);

/// The last one of a folder, or the one that this folder itself is. Throws InputError where there
/// is none, where the manifest is none, where a file is missing or is not as it was written, which
/// names the file and the checkpoint before, and where it is of another model or training.
TrainingCheckpoint find_checkpoint(const TrainingRun& run);

/// Resumes the model and the record from a checkpoint.
void resume(const TrainingCheckpoint& checkpoint, DistributedModel& model, Record& record);

}  // namespace frugal::harness
