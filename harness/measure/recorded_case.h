#pragma once
#include <string>

#include "harness/measure/benchmark.h"
#include "harness/measure/case.h"
#include "harness/measure/timing.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// The user's files of which a record has no more than the hash; empty: not given.
struct UsersFiles {
  std::string text, weights;
};

/// The case of a record, and where and how often it is run.
struct RecordedCase {
  Case again;
  TargetOptions place;
  TimingPlan timing;
};

/// Made from what the record holds, and of a benchmark from the one of its name. Throws InputError
/// that says what is missing: a file, a benchmark, a GPU, processes, a variable of the environment.
RecordedCase recorded_case(const Record& record, const Benchmarks& benchmarks,
                           const UsersFiles& files);

/// The command that runs a record again where its own would need a file that the record holds. It
/// is given in the record's folder.
std::string rerun_command(const Record& record);

}  // namespace frugal::harness
