#pragma once
#include <memory>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/train/module.h"
#include "engine/train/step_work.h"

namespace frugal::engine {

/// Memory of one rank, in bytes, the FLOPs of the matrix multiplications it executed, and all its
/// work. Weights, their gradients, the input and the gradient of the output are among the memory.
struct ModuleMemory {
  BytesPerKind after_forward{};  ///< held between the forward and the backward pass
  HeldPerPart kept{};            ///< its activations and statistics, by the part that holds them
  BytesPerKind peak{};           ///< highest of each kind over forward and backward
  BytesPerKind at_peak{};        ///< held of each kind at the moment of the total peak
  int64_t peak_total = 0;
  double forward_flops = 0, backward_flops = 0;
  StepWork work{};  ///< forward and backward together
};

/// Seconds, from the moment all ranks start until the last one ends.
struct ModuleTime {
  double forward = 0, backward = 0;
};

class ModuleSubject;

/// One module alone, on random input and, where its output is no loss, a random gradient of its
/// output. Recomputation counts as backward, as in korthikanti2022.
class ModuleRun {
 public:
  explicit ModuleRun(Cluster& cluster, Module module = Module::layer);
  ~ModuleRun();
  ModuleRun(const ModuleRun&) = delete;
  ModuleRun& operator=(const ModuleRun&) = delete;

  /// Runs forward and backward once; what rank 0 held.
  ModuleMemory memory();
  /// Runs forward and backward once.
  ModuleTime time();

 private:
  StepWork work_since(const DeviceWork& before, const BytesPerKind& held, const Rank& rank);
  ModuleSubject& of(const Rank& rank) { return *subjects_[static_cast<size_t>(rank.index)]; }

  Cluster& cluster_;
  std::vector<std::unique_ptr<ModuleSubject>> subjects_;
};

}  // namespace frugal::engine
