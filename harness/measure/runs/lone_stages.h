#pragma once
#include "harness/measure/runs/case_run.h"
#include "harness/measure/runs/training_run.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// Trains one rank of each distinct stage of a pipeline, one after the other, each without its
/// peers, and fills in the record: step times that are put together from theirs
/// (engine/plan/lone_stage.h), with their parts; memory of the stages that ran; FLOPs of all. The
/// first of several steps is not timed. `done` is told of a step when the last stage has made it.
/// Returns when each stage's timed steps ran. A run with links (Target::links) and a pipeline.
std::vector<TimeWindow> train_lone_stages(const TrainingRun& run, const Target& target,
                                          Record& record, const StepDone& done);

/// Takes the steps of take_step() with one rank of each distinct stage, one after the other:
/// memory of the stages that ran, FLOPs of all.
void observe_lone_stages(const Target& target, Record& record);

/// Window of the timed steps of a training or of a stage: all steps, but for a first one that is
/// not warm and is made by itself.
class TimedSteps {
 public:
  explicit TimedSteps(bool warm) : counts_(warm), window_{steady_seconds(), 0} {}
  /// Notes that so many steps were made at once, now.
  void took(size_t steps) {
    window_.end = steady_seconds();
    if (!counts_ && steps == 1) window_.begin = window_.end;
    counts_ = true;
  }
  TimeWindow window() const { return window_; }

 private:
  bool counts_;
  TimeWindow window_;
};

}  // namespace frugal::harness
