#pragma once
#include "harness/place/target.h"

namespace frugal::harness {

/// CudaTarget::options() of FRUGAL_TF32 and FRUGAL_CUDA_SYNCHRONOUS.
inline constexpr const char* float32_products = "float32_products";
inline constexpr const char* synchronous = "cuda_synchronous";

/// Option for NCCL_MULTI_RANK_GPU_ENABLE, which lets ranks share a GPU.
inline constexpr const char* shared_gpus = "shared_gpus";

/// The GPUs of this process, a rank each, or several where NCCL is told that they may share one.
class CudaTarget : public Target {
 public:
  explicit CudaTarget(const TargetOptions& options);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  using Target::device;
  std::string device() const override;
  /// The same, and how many ranks share a GPU where some do.
  std::string device(const RunConfig& config) const override;
  double devices(const RunConfig& config) const override;
  std::string why_no_machine() const override;
  bool tf32(DType type) const override;
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override;
  /// But for a 256th, which its allocator rounds up and operations take for themselves, and for
  /// what NCCL takes.
  int64_t memory_of_rank(const RunConfig& config) const override;
  std::vector<int> gpus_here(const RunConfig& config) const override;
  /// Ranks on several GPUs are processes, unless threads were asked for by name: those of one
  /// process share its queues and locks, and may wait for each other for ever (docs/cluster.md).
  std::string why_not(const RunConfig& config) const override;
  std::map<std::string, std::string> options(DType type) const override;

 protected:
  static std::unique_ptr<Cluster> lone_cluster(const RunConfig& config, const Machine& links,
                                               std::optional<int> stage) {
    return make_lone_cuda_cluster(config, links, stage);
  }

 private:
  /// Index in gpus() of the first rank that is here.
  virtual int first_gpu() const { return 0; }
  /// GPUs that the ranks of a run have together, and ranks on the one that has the most.
  virtual int all_gpus() const;
  virtual int ranks_on_a_gpu(const RunConfig& config) const;
  /// Whether NCCL connects the ranks of this configuration.
  virtual bool connects(const RunConfig& config) const { return ranks_here(config) > 1; }

  const bool as_threads_;  ///< what ranks on several GPUs are, by name
  const Pinning pinning_;
};

}  // namespace frugal::harness
