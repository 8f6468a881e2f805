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
/// A run with links (Target::links) and a pipeline.
void train_lone_stages(const TrainingRun& run, const Target& target, Record& record,
                       const StepDone& done);

}  // namespace frugal::harness
