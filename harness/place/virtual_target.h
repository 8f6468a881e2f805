#pragma once
#include "harness/place/target.h"

namespace frugal::harness {

/// A machine that is described: memory is counted, and time is a clock's.
class VirtualTarget : public Target {
 public:
  explicit VirtualTarget(const TargetOptions& options);

  DeviceKind kind() const override { return DeviceKind::simulated; }
  using Target::device;
  std::string device() const override;
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override;
  int64_t memory_of_rank(const RunConfig& config) const override;
  Machine counterpart(int64_t memory) const override;

 protected:
  static std::unique_ptr<Cluster> lone_cluster(const RunConfig& config, const Machine& links,
                                               std::optional<int> stage) {
    return make_lone_virtual_cluster(config, links, stage);
  }

 private:
  VirtualTarget(const TargetOptions& options, const Machine& machine);
};

}  // namespace frugal::harness
