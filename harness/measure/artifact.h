#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/train/module_run.h"
#include "engine/train/optimizer.h"
#include "harness/place/device_kind.h"
#include "harness/record/record.h"

namespace frugal {

/// One configuration of an artifact and what is observed of it.
struct Case {
  enum class What : uint8_t {
    module_memory,  ///< bytes and FLOPs of one module alone (ModuleRun::memory)
    module_time,    ///< its forward and backward time, and its memory; on a real device the
                    ///< cases of one artifact are timed together, interleaved round by round
    training,     ///< steps of the whole model through its schedule, on random tokens: their times,
                  ///< memory and FLOPs
    step_memory,  ///< bytes that each stage takes in a training step, however much the machine
                  ///< has; only on virtual ones (observe_step_memory() of
                  ///< harness/measure/training.h)
    longest_sequence  ///< tokens of the longest sequence of which a training step fits the machine,
                      ///< and its memory; only on virtual ones (harness/measure/longest.h). The
                      ///< configuration's own length is not read
  };

  std::string id;  ///< within its artifact, the same in every setting: "22B/baseline"
  What what = What::module_memory;
  Module module = Module::layer;  ///< that is alone
  RunConfig config;               ///< already scaled
  std::string on;                 ///< "cpu", "cuda", or "virtual:" and a machine of hardware/
  /// A machine of hardware/ to whose links collectives are charged, where one rank runs without its
  /// peers (TargetOptions::lone_rank); empty: all ranks run.
  std::string lone_rank = {};
  int64_t scale = 1;      ///< k of the scale model 1/k
  std::string skip = {};  ///< why it cannot be run in this setting; recorded as skipped, not run
  int64_t steps = 1;      ///< of training
  OptimizerOptions optimizer = {};  ///< of training and longest_sequence
  /// What is run besides where this case runs out of memory: the same at a smaller size, say. At
  /// most one, which may have its own.
  std::vector<Case> smaller = {};

  Source source() const { return source_of(device_kind(on)); }
};
/// "layer_memory", "mlp_time", …: Record::what.
std::string what_of(const Case& c);

/// The GPUs that cases can run on.
struct GpuSelection {
  int count = 1;
  /// Of hardware/: what a lone rank's collectives are charged to where a case has more ranks than
  /// there are GPUs. Empty where no file names these GPUs.
  std::string machine;
  std::string gpu = {};  ///< its name, for messages

  /// Case::lone_rank of a case.
  std::string lone_rank(const RunConfig& config) const {
    return config.ranks() > count ? machine : "";
  }
  /// Case::skip of a case: why its absent ranks have no links; empty where it can be run.
  std::string skip(const RunConfig& config) const;
};

/// What the user asked for.
struct Selection {
  bool virtual_machine = true;
  bool cpu = true;
  std::optional<GpuSelection> cuda = {};
  /// k of the scale model 1/k, on every device; otherwise the artifact chooses (1 on a virtual
  /// machine, what a laptop can hold on a real one).
  std::optional<int64_t> scale = {};
};

/// One table or figure of a paper: which cases are run, and which cells and claims follow.
/// The harness owns timing, allocation, JSON and the command line.
class Artifact {
 public:
  Artifact() = default;
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;
  virtual ~Artifact() = default;

  virtual std::string id() const = 0;  ///< "korthikanti2022/table4"
  virtual std::string title() const = 0;
  virtual std::vector<Case> cases(const Selection& selection) const = 0;
  /// For every setting in the records. A case that is missing or not ok gives a cell without value
  /// that carries the status and reason. Cells of formulas need no record.
  virtual std::vector<Cell> cells(const Records& records) const = 0;
  virtual std::vector<Claim> claims(const Records& records) const = 0;
  /// Whether running out of memory is a result that its cells show, and no failure.
  virtual bool expects_oom() const { return false; }
};

}  // namespace frugal
