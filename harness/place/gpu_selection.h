#pragma once
#include <string>
#include <vector>

#include "engine/config.h"
#include "harness/namespace.h"
#include "kernels/cuda/gpus.h"

namespace frugal::harness {

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

/// The GPUs for cases: one where the build has no NCCL, which several need, or where their ranks
/// are not to be threads of this process. Of a GPU that no file of hardware/ names there are no
/// lone ranks (GpuSelection::skip).
GpuSelection gpu_selection(const std::vector<Gpu>& gpus, bool as_threads);

/// "NVIDIA H200, compute capability 9.0, 139.7 GiB, driver for CUDA up to 13.0, CUDA 13.0"
std::string describe(const Gpu& gpu);

}  // namespace frugal::harness
