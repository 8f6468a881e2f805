#include "harness/place/cuda_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/comm/nccl/nccl.h"
#include "harness/place/environment.h"
#include "harness/place/gpu_selection.h"
#include "harness/place/gpu_state.h"

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
    : Target(options.on, sheet_of_gpu(options), options.deadline),
      as_threads_(options.ranks == RanksAs::threads),
      pinning_(options.pinning) {}

std::string CudaTarget::device() const { return describe(gpus().at(first_gpu())); }

std::string CudaTarget::device(const RunConfig& config) const {
  const int ranks = ranks_on_a_gpu(config);
  if (ranks == 1) return device();
  return fmt::format("{}; up to {} ranks share a GPU, and times say nothing of GPUs apart",
                     device(), ranks);
}

int CudaTarget::all_gpus() const { return static_cast<int>(gpus().size()); }

int CudaTarget::ranks_on_a_gpu(const RunConfig& config) const {
  return (ranks_here(config) + all_gpus() - 1) / all_gpus();
}

double CudaTarget::devices(const RunConfig& config) const {
  return ranks_on_a_gpu(config) > 1 ? all_gpus() : Target::devices(config);
}

std::string CudaTarget::why_no_machine() const {
  if (machine()) return "";
  return fmt::format("no file of hardware/ has {} among its device_names; name one with --hardware",
                     gpus().at(first_gpu()).name);
}

bool CudaTarget::tf32(DType type) const { return type == DType::f32 && tf32_products(); }

std::unique_ptr<Cluster> CudaTarget::cluster(const RunConfig& config) const {
  std::vector<Processors> near;
  if (pinning_ == Pinning::cores) {
    for (int rank = 0; rank < config.ranks(); ++rank)
      near.push_back(processors_near_gpus(gpu_of_rank(rank, 0, all_gpus()), 1).front());
  }
  return make_cuda_cluster(config, deadline(), first_gpu(), std::move(near));
}

std::unique_ptr<Cluster> CudaTarget::cluster_with(const RunConfig& config,
                                                  int64_t /*memory*/) const {
  return cluster(config);
}

int64_t CudaTarget::memory_of_rank(const RunConfig& config) const {
  constexpr int64_t left = 256;  // of how many parts one is left to it
  const int64_t free = free_gpu_memory(first_gpu()) / ranks_on_a_gpu(config);
  return free - free / left - (connects(config) ? memory_of_communicators(config) : 0);
}

std::vector<int> CudaTarget::gpus_here(const RunConfig& config) const {
  const auto there = static_cast<size_t>(std::min(ranks_here(config), all_gpus()));
  std::vector<int> gpus(there);
  std::iota(gpus.begin(), gpus.end(), first_gpu());
  return gpus;
}

std::string CudaTarget::why_not(const RunConfig& config) const {
  const int here = ranks_here(config);
  if (std::string why = why_not_on_gpus(config, here, static_cast<int>(gpus().size()));
      here == 1 || as_threads_ || !why.empty())
    return why;
  return fmt::format(
      "{} ranks on GPUs are a process each; start as many: mpirun -n {} frugal measure ... (or "
      "torchrun, docs/cluster.md), or give --ranks threads, which may wait for each other for ever",
      here, here);
}

std::map<std::string, std::string> CudaTarget::options(DType type) const {
  std::map<std::string, std::string> options = Target::options(type);
  if (tf32(type)) options[float32_products] = "tf32";
  if (cuda_synchronous()) options[synchronous] = "yes";
  if (pinning_ == Pinning::cores) options["pinned"] = "yes";
  if (as_threads_) options[ranks_option] = name_of(RanksAs::threads);
  if (as_threads_ && ranks_may_share_gpus()) options[shared_gpus] = "allowed";
  options.merge(gpu_libraries());
  return options;
}

}  // namespace frugal::harness
