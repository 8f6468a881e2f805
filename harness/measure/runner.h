#pragma once
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/measure/artifact.h"
#include "harness/measure/progress.h"
#include "harness/measure/timing.h"
#include "harness/place/target.h"
#include "harness/record/record_file.h"

namespace frugal {

/// A GPU that this process cannot use any more: no case could be run on it (exit status 7).
struct GpuLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Turns cases into records: runs what a record file does not have yet and appends it.
class Runner {
 public:
  struct Options {
    int threads = 1;
    TimingPlan timing;
    std::string command;  ///< that reproduces the records
    /// What runs the virtual cases on a machine of this name, instead of the one of hardware/.
    std::optional<Machine> machine = {};
  };

  Runner(RecordFile& file, Progress& progress, Options options);

  /// Records of all these cases, in their order, and behind them of the smaller ones that stand in
  /// for those that ran out of memory: recorded before, or run now. Throws Interrupted, after a
  /// record that says so; GpuLost, after the record of the case that lost it, and then the same
  /// command runs the others; InputError for a case that is wrong anywhere, before any is run.
  /// A case that cannot be done here (Case::skip, Target::why_not) is recorded as skipped.
  Records run(const std::string& artifact, const std::vector<Case>& cases);

 private:
  struct Running;

  Target& target(const Case& c);
  /// Whether each of a group has a final record, all of the same rounds.
  bool recorded(const std::vector<Running>& group) const;
  Record blank(const std::string& artifact, const Case& c);
  /// Cases that run together: one, or those that are timed interleaved.
  /// Says of a case that ran out of memory how many others were in it.
  static void add_others_in_memory(Running& r, const std::vector<Running>& group);
  void run_group(std::vector<Running>& group);
  /// Whether a case failed outside of rounds, as one does that lost the GPU: others that are timed
  /// with it are run again, without it.
  bool failed_alone(const Record& blank) const;
  /// Throws GpuLost where a case failed because its GPU is lost.
  static void check_gpu(const std::vector<Running>& group);
  /// Records of a group that ends before its time: interrupted, but for a case whose
  /// status is `guilty`.
  void end_early(std::vector<Running>& group, const std::string& why, std::optional<Status> guilty);
  /// Runs a case but for the timed rounds, and says what it takes.
  void observe(Running& r);
  /// Makes the module of a case.
  static void observe_module(Running& r);
  static void search(Running& r);
  void train(Running& r);
  void time_group(std::vector<Running>& group);
  static void begin(Record& record, const Target& target);
  void finish(Record& record);

  RecordFile& file_;
  Progress& progress_;
  Options options_;
  std::map<std::pair<std::string, std::string>, Target> targets_;  ///< by `on` and lone rank
};

/// Positions of the cases that run together, in the order of their first: those that are timed on
/// the same real device, in rounds, and every other case alone.
std::vector<std::vector<size_t>> grouped(const std::vector<Case>& cases);

/// Runs work and turns what it throws into the record's status and reason: OutOfMemory into oom,
/// DeadlinePassed into timeout, PeerLost into peer_lost, Interrupted into interrupted, everything
/// else into failed. Interrupted and InputError are thrown on.
void run_guarded(Record& record, const std::function<void()>& work);

/// What a device holds for all that was allocated so far (Memory::reserved).
std::optional<int64_t> reserved_by(const Device& device);

/// MFU and HFU of `flops` in `seconds`.
Utilization utilization(const Flops& flops, double seconds, Target& target,
                        const RunConfig& config);

}  // namespace frugal
