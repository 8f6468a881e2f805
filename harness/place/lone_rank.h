#pragma once
#include <fmt/format.h>

#include "harness/place/machine_label.h"
#include "harness/place/target.h"

namespace frugal::harness {

/// One rank of many on a real device, a CpuTarget or a CudaTarget: collectives are charged to the
/// links of a machine (make_lone_*_cluster() of engine/cluster.h). Each rank that is absent has a
/// device like the one here.
template <class Real>
class LoneRank final : public Real {
 public:
  explicit LoneRank(const TargetOptions& options)
      : Real(options), links_(options.links ? *options.links : find_machine(options.lone_rank)) {}

  using Real::device;
  std::string device(const RunConfig& config) const override {
    const std::string& known = links_.calibration;
    return fmt::format("{}{}{}; communication modelled on {}{}", device(), one_rank_of,
                       config.ranks(), label_of(links_), known.empty() ? "" : " (" + known + ")");
  }
  double devices(const RunConfig& config) const override { return config.ranks(); }
  const Machine* links() const override { return &links_; }
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override {
    return config.ranks() > 1 ? this->lone_cluster(config, links_, {}) : Real::cluster(config);
  }
  std::unique_ptr<Cluster> cluster_of_stage(const RunConfig& config, int stage) const override {
    return this->lone_cluster(config, links_, stage);
  }

 private:
  int ranks_here(const RunConfig& /*config*/) const override { return 1; }

  const Machine links_;
};

}  // namespace frugal::harness
