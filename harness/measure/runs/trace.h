#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/schedule/timeline.h"
#include "harness/namespace.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {
class Trainer;
}  // namespace frugal::engine

namespace frugal::harness {

/// What the first rank of a stage did, in seconds on its device's clock.
struct StageTrace {
  std::vector<Span> spans;
  std::vector<VersionCount> versions;
  std::vector<Ledger::Change> memory;            ///< from before the trace began, too
  std::vector<Ledger::Change> host;              ///< the same of the host's memory
  std::vector<VirtualDevice::Interval> streams;  ///< of a virtual device; none of others
};

/// What a run did. Events before `begin` are not part of it; memory that was taken before is in use
/// from the beginning.
struct Trace {
  double begin = 0;
  int chunks = 1;  ///< of each stage
  Placement placement = Placement::around;
  int microbatches = 1;  ///< of a batch
  std::vector<StageTrace> stages;
  std::map<std::string, std::string> about;  ///< the run, in words
};

/// In the Trace Event Format, which Perfetto and Chrome read: a process for each stage, with a
/// track for its passes, its waits, its messages in each direction, and each stream of a virtual
/// device; counters of memory in use and of weight versions; an arrow from each message to the pass
/// that needs it (docs/trace.md). Microseconds, to the nanosecond.
std::string to_json(const Trace& trace);

/// Makes a trace of what a trainer does.
class TraceRecorder {
 public:
  /// Records all memory of these ranks from now on: the trainer has none yet.
  explicit TraceRecorder(Cluster& cluster);
  /// Before the first run() that is part of the trace.
  void begin(Trainer& trainer);
  /// What the last run() did.
  void add(const Trainer& trainer);
  /// All of it. No run is added any more.
  Trace take();

 private:
  /// The first rank of each stage.
  std::vector<Rank*> ranks_;
  Trace trace_;
};

}  // namespace frugal::harness
