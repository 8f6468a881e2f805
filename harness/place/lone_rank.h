#pragma once
#include <fmt/format.h>

#include "engine/plan/lone_stage.h"
#include "harness/place/machine_label.h"
#include "harness/place/target.h"
#include "kernels/cuda/gpus.h"

namespace frugal::harness {

/// One rank of many on a CpuTarget, a CudaTarget or a VirtualTarget: collectives are charged to the
/// links of a machine (make_lone_*_cluster() of engine/cluster/cluster.h). Each rank that is absent
/// has a device like the one here.
template <class Place>
class LoneRank final : public Place {
 public:
  explicit LoneRank(const TargetOptions& options)
      : Place(options), links_(options.links ? *options.links : find_machine(options.lone_rank)) {}

  using Place::device;
  std::string device(const RunConfig& config) const override {
    const std::string& known = links_.calibration;
    return fmt::format("{}{}{}; communication modelled on {}{}", device(), one_rank_of,
                       config.ranks(), label_of(links_), known.empty() ? "" : " (" + known + ")");
  }
  double devices(const RunConfig& config) const override { return config.ranks(); }
  const Machine* links() const override { return &links_; }
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override {
    return config.ranks() > 1 ? this->lone_cluster(config, links_, {}) : Place::cluster(config);
  }
  std::unique_ptr<Cluster> cluster_of_stage(const RunConfig& config, int stage) const override {
    return this->lone_cluster(config, links_, stage);
  }
  std::string why_not(const RunConfig& config) const override {
    std::string why = Place::why_not(config);
    return why.empty() && config.pipeline_parallel > 1 ? why_not_lone_stages(config) : why;
  }
  /// Adds which of two bounds collectives take on a GPU (collectives_load(), kernels/cuda/gpus.h).
  std::map<std::string, std::string> options(DType type) const override {
    std::map<std::string, std::string> options = Place::options(type);
    if (this->kind() == DeviceKind::cuda)
      options[collective_load] = collectives_load() ? collective_load_all : "none";
    return options;
  }

 private:
  int ranks_here(const RunConfig& /*config*/) const override { return 1; }

  const Machine links_;
};

}  // namespace frugal::harness
