#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/train/module.h"
#include "harness/measure/runs/training_run.h"
#include "harness/place/device_kind.h"

namespace frugal::harness {

class CaseRun;
class Target;

/// What can be observed of a configuration; a Training is one as well. Each has a class that
/// executes it (harness/measure/runs/case_run.h).
namespace workload {

/// Bytes and FLOPs of one module alone (ModuleRun::memory).
struct ModuleMemory {
  Module module = Module::layer;
};
/// Its forward and backward time, and its memory. On a real device the cases of one artifact are
/// timed together, interleaved round by round.
struct ModuleTime {
  Module module = Module::layer;
};
/// Bytes that each stage takes in a training step: on a virtual machine however much it has, on a
/// real one within its limit. Of a lone rank within it, too, and of each distinct stage
/// (engine/plan/lone_stage.h).
struct StepMemory {};
/// Tokens of the longest sequence of which a training step fits the machine, and its memory; only
/// on virtual ones (harness/measure/runs/longest.h). The configuration's own length is not read.
struct LongestSequence {
  OptimizerOptions optimizer = {};
};
/// What a case of a benchmark does (harness/measure/benchmark.h). Its configuration may be empty:
/// not everything that is timed is a model.
struct Benchmark {
  std::map<std::string, std::string> axes;  ///< where it lies; Record::options has them
  std::string rounds;  ///< those of the same are timed together; empty: it times nothing by turns
  std::function<std::unique_ptr<CaseRun>(const Target&)> make;
};

}  // namespace workload

using Workload = std::variant<workload::ModuleMemory, workload::ModuleTime, workload::StepMemory,
                              workload::LongestSequence, workload::Benchmark, Training>;

/// One configuration and what is observed of it.
struct Case {
  std::string id;         ///< within its artifact, the same in every setting: "22B/baseline"
  RunConfig config = {};  ///< already scaled
  Workload workload = workload::ModuleMemory{};
  std::string on;  ///< "cpu", "cuda", or "virtual:" and a machine of hardware/
  /// A machine of hardware/ to whose links collectives are charged, where one rank runs without its
  /// peers (TargetOptions::lone_rank); empty: all ranks run.
  std::string lone_rank = {};
  int64_t scale = 1;         ///< k of the scale model 1/k
  std::string skip = {};     ///< why it cannot be run in this setting; recorded as skipped, not run
  std::string title = {};    ///< in messages; empty: its artifact, id and place
  std::string command = {};  ///< reproduces it; empty: that of all its artifact's cases
  /// What is run besides where this case runs out of memory: the same at a smaller size, say. At
  /// most one, which may have its own.
  std::vector<Case> smaller = {};

  Source source() const { return source_of(device_kind(on)); }
  template <class Kind>
  bool observes() const {
    return std::holds_alternative<Kind>(workload);
  }
};

/// "layer_memory", "mlp_time", "benchmark", "training", …: Record::what.
std::string what_of(const Workload& workload);
/// Whether its times are results.
bool is_timed(const Workload& workload);
/// Whether rounds are a part of it (CaseRun::time).
bool has_rounds(const Workload& workload);
/// What those cases have in common that are timed together, round by round: modules their real
/// device, cases of a benchmark what it declares. Empty for a case that is run alone.
std::string rounds_of(const Case& c);

}  // namespace frugal::harness
