#pragma once
#include "harness/place/target.h"

namespace frugal::harness {

/// Target::options() of FRUGAL_SIMD.
inline constexpr const char* instructions = "simd";

/// The processor of this process; ranks are threads that share it.
class CpuTarget : public Target {
 public:
  explicit CpuTarget(const TargetOptions& options);

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::optional<int> threads() const override { return threads_; }
  using Target::device;
  std::string device() const override;
  double devices(const RunConfig& /*config*/) const override { return 1; }
  std::string why_no_machine() const override;
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override;
  int64_t memory_of_rank(const RunConfig& config) const override;
  void check(const RunConfig& config) const override;
  std::map<std::string, std::string> options(DType type) const override;

 protected:
  std::unique_ptr<Cluster> lone_cluster(const RunConfig& config, const Machine& links,
                                        std::optional<int> stage) const {
    return make_lone_cpu_cluster(config, threads_, links, stage);
  }

 private:
  std::vector<Processors> processors_of_ranks(const RunConfig& config) const;

  int threads_;
  Pinning pinning_;
};

}  // namespace frugal::harness
