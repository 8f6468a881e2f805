#include "harness/place/gpu_selection.h"

#include <fmt/format.h>

#include "engine/comm/nccl/nccl.h"
#include "harness/place/environment.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

GpuSelection gpu_selection(const std::vector<Gpu>& gpus, bool as_threads) {
  const auto machine = machine_of_device(gpus.front().name);
  const int usable = as_threads && why_no_nccl().empty() ? static_cast<int>(gpus.size()) : 1;
  return {usable, machine ? machine->name : "", gpus.front().name};
}

std::string GpuSelection::skip(const RunConfig& config) const {
  if (config.ranks() <= count || !machine.empty()) return "";
  return fmt::format(
      "no file of hardware/ names this GPU; there are no links to which the collectives of one "
      "rank of {} could be charged. Describe {} in a file (HACKING.md, A machine), or use {} GPUs "
      "with --ranks threads",
      config.ranks(), gpu.empty() ? "it" : gpu, config.ranks());
}

std::string describe(const Gpu& gpu) {
  return fmt::format("{}, compute capability {}.{}, {:.1f} GiB, driver for CUDA up to {}, CUDA {}",
                     gpu.name, gpu.major, gpu.minor,
                     static_cast<double>(gpu.memory) / static_cast<double>(int64_t{1} << 30),
                     cuda_version(gpu.driver), cuda_version(gpu.runtime));
}

}  // namespace frugal::harness
