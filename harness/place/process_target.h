#pragma once
#include "harness/place/cpu_target.h"
#include "harness/place/processes.h"

namespace frugal::harness {

/// The processors of the hosts on which a launcher has started processes, one for each rank.
class ProcessTarget final : public CpuTarget {
 public:
  ProcessTarget(const TargetOptions& options, Processes& processes);

  using CpuTarget::device;
  std::string device(const RunConfig& config) const override;
  /// One processor for each host.
  double devices(const RunConfig& config) const override;
  /// The sum of the processes', which have measured it at the same time.
  double together(double rate, const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override;
  int64_t memory_of_rank(const RunConfig& config) const override;
  /// Throws InputError also where there are not as many processes as ranks, and where ranks that
  /// share layers are on different hosts and need not be.
  void check(const RunConfig& config) const override;
  std::map<std::string, std::string> options(DType type) const override;

 private:
  void check_placement(const RunConfig& config) const;

  Processes& processes_;
};

}  // namespace frugal::harness
