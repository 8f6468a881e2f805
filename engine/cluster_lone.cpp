#include <stdexcept>

#include "engine/cluster.h"
#include "engine/comm/modelled.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/virtual/device.h"

namespace frugal {
namespace {

/// Rank 0 on a device of its own, in a modelled group.
class LoneCluster final : public Cluster {
 public:
  LoneCluster(const RunConfig& config, std::unique_ptr<Device> device, const Machine& machine)
      : device_(std::move(device)),
        communicator_(*device_, CostModel(machine), 0, config.tensor_parallel),
        rank_(*device_, communicator_, config) {}

  void run(const std::function<void(Rank&)>& body) override { body(rank_); }
  int local_ranks() const override { return 1; }
  bool whole() const override { return communicator_.whole(); }
  Rank& rank(int index) override {
    if (index != 0) throw std::out_of_range("a cluster of a lone rank has rank 0 only");
    return rank_;
  }

 private:
  std::unique_ptr<Device> device_;
  ModelledCommunicator communicator_;
  Rank rank_;
};

}  // namespace

std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine) {
  config.validate();
  return std::make_unique<LoneCluster>(config, std::make_unique<VirtualDevice>(machine), machine);
}

std::unique_ptr<Cluster> make_lone_cpu_cluster(const RunConfig& config, int threads,
                                               const Machine& machine) {
  config.validate();
  return std::make_unique<LoneCluster>(config, std::make_unique<CpuDevice>(threads), machine);
}

std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine) {
  config.validate();
  return std::make_unique<LoneCluster>(config, make_cuda_device(), machine);
}

}  // namespace frugal
