#include "harness/place/cuda_target.h"

#include <fmt/format.h>

#include <numeric>

#include "harness/place/environment.h"
#include "harness/place/gpu_selection.h"

namespace frugal::harness {
namespace {

std::optional<Machine> sheet_of_gpu(const TargetOptions& options) {
  const std::string& gpu = gpus().front().name;  // says why there is none
  if (options.machine) return options.machine;
  if (!options.hardware.empty()) return find_machine(options.hardware);
  return machine_of_device(gpu);
}

}  // namespace

CudaTarget::CudaTarget(const TargetOptions& options)
    : Target(options.on, sheet_of_gpu(options), options.deadline) {}

std::string CudaTarget::device() const { return describe(gpus().at(first_gpu())); }

std::string CudaTarget::why_no_machine() const {
  if (machine()) return "";
  return fmt::format("no file of hardware/ has {} among its device_names; name one with --hardware",
                     gpus().at(first_gpu()).name);
}

bool CudaTarget::tf32(DType type) const { return type == DType::f32 && tf32_products(); }

std::unique_ptr<Cluster> CudaTarget::cluster(const RunConfig& config) const {
  return make_cuda_cluster(config, deadline(), first_gpu());
}

std::unique_ptr<Cluster> CudaTarget::cluster_with(const RunConfig& config,
                                                  int64_t /*memory*/) const {
  return cluster(config);
}

int64_t CudaTarget::memory_of_rank(const RunConfig& /*config*/) const {
  constexpr int64_t left = 256;  // of how many parts one is left to it
  const int64_t free = free_gpu_memory(first_gpu());
  return free - free / left;
}

std::vector<int> CudaTarget::gpus_here(const RunConfig& config) const {
  std::vector<int> gpus(static_cast<size_t>(ranks_here(config)));
  std::iota(gpus.begin(), gpus.end(), first_gpu());
  return gpus;
}

std::string CudaTarget::why_not(const RunConfig& config) const {
  return why_not_on_gpus(config, ranks_here(config), static_cast<int>(gpus().size()));
}

std::map<std::string, std::string> CudaTarget::options(DType type) const {
  std::map<std::string, std::string> options = Target::options(type);
  if (tf32(type)) options[float32_products] = "tf32";
  if (cuda_synchronous()) options[synchronous] = "yes";
  options.merge(gpu_libraries());
  return options;
}

}  // namespace frugal::harness
