#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/measure/case.h"
#include "harness/measure/gpu_watch.h"
#include "harness/measure/progress.h"
#include "harness/measure/rerun.h"
#include "harness/measure/runs/case_run.h"
#include "harness/measure/timing.h"
#include "harness/place/target.h"
#include "harness/record/record_file.h"

namespace frugal::harness {

/// A GPU that this process cannot use any more: no case could be run on it (exit status 7).
struct GpuLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Turns cases into records: runs what a record file does not have yet and appends it.
class Runner {
 public:
  struct Options {
    /// What cases do not say of their places: threads, say. Its machine runs the virtual cases on a
    /// machine of this name, instead of the one of hardware/, and is the data sheet of the others.
    TargetOptions place = {};
    TimingPlan timing = {};
    std::string command = {};  ///< that reproduces the records (Case::command, that of one)
    Rerun rerun = {};          ///< of what is recorded before this runner runs
    /// Whether no verdict would change if these records, of cases that are timed together so far,
    /// had more rounds (RoundsSoFar::decided); empty where nothing is judged.
    std::function<bool(const Records&)> decided = {};
    bool reports_steps = false;  ///< progress counts the steps of trainings, not cases
  };

  Runner(RecordFile& file, Progress& progress, Options options);

  /// Records of all these cases, in their order, and behind them of the smaller ones that stand in
  /// for those that ran out of memory: recorded before, or run now. Throws Interrupted, after a
  /// record that says so; GpuLost, after the record of the case that lost it, and then the same
  /// command runs the others; InputError for a case that is wrong anywhere, before any is run.
  /// A case that cannot be done here (Case::skip, Target::why_not) is recorded as skipped; one that
  /// saves files is run whatever is recorded.
  Records run(const std::string& artifact, const std::vector<Case>& cases);

 private:
  struct Running;
  /// Where cases run.
  struct Site {
    std::unique_ptr<Target> target;
    PeakRates peaks;
  };

  Site& site(const Case& c);
  Record blank(const std::string& artifact, const Case& c);
  /// The record with which a case need not be run: its last final one, unless the case is to be run
  /// again or was interrupted since. Null where there is none.
  const Record* recorded(const Case& c, const Record& blank) const;
  /// Whether each of a group has one, all of the same rounds.
  bool recorded(const std::vector<Running>& group) const;
  void say_recorded(const Running& r);
  /// Says whose record of a case is not taken for the one of this program here.
  void say_made_elsewhere(const Record& blank);
  void run_group(std::vector<Running>& group);
  /// Says of a case that ran out of memory how many others were in it.
  static void add_others_in_memory(Running& r, const std::vector<Running>& group);
  /// Whether a case failed outside of rounds, as one does that lost the GPU: others that are timed
  /// with it are run again, without it.
  bool failed_alone(const Running& r) const;
  /// Throws GpuLost where a case failed because its GPU is lost.
  static void check_gpu(const std::vector<Running>& group);
  /// Records of a group that ends before its time: interrupted, but for a case whose
  /// status is `guilty`.
  void end_early(std::vector<Running>& group, const std::string& why, std::optional<Status> guilty);
  /// Runs a case but for the timed rounds, and says what it takes.
  void observe(Running& r);
  void time_group(std::vector<Running>& group);
  /// One turn of a case: an execution, or a block of them in a steady state (TimingPlan::steady).
  void take_turn(Running& r, const std::vector<Running>& group, bool keep);
  /// Makes one sample of those that a block has added, their mean, and notes how many they were.
  static void join_block(Record& record, const std::map<std::string, size_t>& before);
  /// Uncertainty of the group's time that is known least well (RoundsSoFar::uncertainty).
  static double uncertainty_of(const std::vector<Running>& group);
  /// RoundsSoFar::decided.
  bool decided(const std::vector<Running>& group) const;
  void finish(Record& record);

  RecordFile& file_;
  Progress& progress_;
  Options options_;
  const size_t earlier_;  ///< records of the file that are older than this runner
  std::map<std::pair<std::string, std::string>, Site> sites_;  ///< by `on` and lone rank
  std::unique_ptr<GpuWatch> gpu_watch_;                        ///< while a group with GPUs runs
};

/// Positions of the cases that run together, in the order of their first: those that share rounds
/// (rounds_of), and every other case alone.
std::vector<std::vector<size_t>> grouped(const std::vector<Case>& cases);

}  // namespace frugal::harness
